/// Defines setters for public fields of a struct that is `#[non_exhaustive]`: each takes the struct and returns it with
/// another value of the field of the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$meta:meta])* $field:ident: $type:ty,)*) => {$(
        #[doc = concat!("Sets the field [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
        $(#[$meta])*
        #[must_use]
        pub const fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}
