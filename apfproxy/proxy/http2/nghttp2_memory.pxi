"""The library's memory: Python's, which is faster than libc's for its many small pieces."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc


cdef void *new(size_t size, void *_) noexcept:
    return PyMem_Malloc(size)


cdef void drop(void *start, void *_) noexcept:
    PyMem_Free(start)


cdef void *new_zeroed(size_t count, size_t size, void *_) noexcept:
    return PyMem_Calloc(count, size)


cdef void *resize(void *start, size_t size, void *_) noexcept:
    return PyMem_Realloc(start, size)


cdef nghttp2_mem memory = nghttp2_mem(NULL, new, drop, new_zeroed, resize)
