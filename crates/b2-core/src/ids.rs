/// Defines the names of a one-byte id: `name`, `from_name`, and how it is displayed. `$kind:NUMBER` stands for any id.
#[doc(hidden)]
#[macro_export]
macro_rules! named_ids {
    ($id:ident, $kind:literal, $($number:ident $name:literal)*) => {
        impl $id {
            #[doc = concat!("Returns the name of the ", $kind, ", or `None` if the id has none.")]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$number => Some($name),)*
                    _ => None,
                }
            }

            #[doc = concat!("Returns the id for a name, or for `", $kind, ":ID`.")]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$number),)*
                    _ => name.strip_prefix(concat!($kind, ":"))?.parse().ok().map(Self),
                }
            }
        }

        impl std::fmt::Display for $id {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!($kind, ":{}"), self.0),
                }
            }
        }

        impl std::fmt::Debug for $id {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($id), "({})"), self)
            }
        }
    };
}
