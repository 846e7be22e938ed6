# Functions of framed.c.
    .text

# void with_frame(void *frame, size_t size): calls keep(size) while the frame pointer is `frame`. The tables know how to
# go on.
    .globl with_frame
    .type with_frame, @function
with_frame:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rdi, %rbp
    mov %rsi, %rdi
    call keep
    pop %rbp
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size with_frame, . - with_frame

# void *generated(size_t size): malloc, under a frame pointer and without a table.
    .globl generated
    .type generated, @function
generated:
    push %rbp
    mov %rsp, %rbp
    sub $4096, %rsp
    call malloc@PLT
    leave
    ret
    .size generated, . - generated

    .section .note.GNU-stack, "", @progbits
