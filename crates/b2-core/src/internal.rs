/// Makes an item public for the other crates of this repository, which need the exact version of the crate with the
/// item, and enable its feature `__internal`. Without the feature the item is private. It is no part of the public API.
#[doc(hidden)]
#[macro_export]
macro_rules! internal {
    ($(#[$meta:meta])* pub $($item:tt)*) => {
        #[cfg(feature = "__internal")]
        #[doc(hidden)]
        $(#[$meta])*
        pub $($item)*
        #[cfg(not(feature = "__internal"))]
        $(#[$meta])*
        pub(crate) $($item)*
    };
}
