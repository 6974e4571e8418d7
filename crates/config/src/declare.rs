//! Macros that declare sections and choices, so that each key and each word is written once.

/// Declares a section, each key in one place: `pub KEY: TYPE = METHOD(ARGUMENTS) or DEFAULT;`. The
/// method is one of `Section`'s, which gets the key, the arguments, and the default if there is
/// one. Without `or` the default is that of the type.
macro_rules! section {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $(
                $(#[$of_key:meta])*
                pub $key:ident: $type:ty = $method:ident($($argument:expr),*) $(or $default:expr)?;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$of_key])* pub $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: section!(@default $($default)?),)* }
            }
        }

        impl $name {
            pub(crate) fn read(s: &mut crate::reader::Section<'_>) -> Self {
                Self {
                    $($key: s.$method(stringify!($key), $($argument,)* $($default)?),)*
                }
            }
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
}

/// Declares an enum whose variants are written as words: `VARIANT = "WORD"`.
macro_rules! choice {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of_variant])* $variant,)*
        }

        impl $name {
            /// The word in the configuration; also Kubernetes' own where it has one.
            pub fn as_str(self) -> &'static str {
                crate::kinds::word_of(self)
            }
        }

        impl crate::kinds::Choice for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)*];
        }
    };
}

pub(super) use {choice, section};
