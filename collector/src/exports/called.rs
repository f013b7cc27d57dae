//! Functions of `nccl.h` that are called without a communicator: each says where it will return to, and is forwarded as the
//! others are.

/// Defines an exported function, as `wrap` does, that is called without a communicator: which copy of the library it is for
/// only the place in memory tells that it returns to. No argument of such a function is a floating-point number, or beyond
/// the sixth register.
macro_rules! wrap_called {
    ($name:ident($($arg:ident: $type:ty),*), |$local:ident, $library:ident = $which:expr, $real:ident| $body:expr) => {
        const _: () = {
            unsafe extern "C-unwind" fn called($($arg: $type),*) -> c_int {
                crate::exports::forward::wrap!(@body $name($($arg: $type),*), |$local, $library = $which, $real| $body)
            }

            #[doc = concat!("`", stringify!($name), "` of nccl.h.")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    "push rbp", "mov rbp, rsp",
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
                    "mov rdi, [rbp + 8]", "call {remember}",
                    "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "pop rbp", "jmp {called}",
                    remember = sym crate::calls::linker_scope::remember_caller, called = sym called
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-80]!", "mov x29, sp",
                    "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                    "mov x0, x30", "bl {remember}",
                    "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
                    "ldp x29, x30, [sp], #80", "b {called}",
                    remember = sym crate::calls::linker_scope::remember_caller, called = sym called
                );
            }
        };
    };
}
pub(crate) use wrap_called;
