/* What the test programs use of the CUDA driver without a device, fake_cuda.c: its memory, streams, faults and counts. */
#ifndef FAKE_CUDA_H_
#define FAKE_CUDA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fake_stream* fake_stream_t;

/* Makes a context of the device current on this thread. */
void fake_use_device(int device);
/* Memory of a device, which no processor may touch; managed memory, which all may. */
void* fake_alloc(int device, size_t bytes);
void* fake_alloc_managed(int device, size_t bytes);
/* Copies from device memory, not on a stream. */
void fake_read(void* to, const void* from, size_t bytes);
/* A stream of the device; all its work takes so many microseconds. */
fake_stream_t fake_stream(int device, unsigned delay_us);
/* Puts a kernel on a stream: copies memory that the processor has into device memory. */
void fake_kernel(fake_stream_t stream, void* to, const void* from, size_t bytes);
/* The stream does nothing from here on, until it is let go. */
void fake_hold(fake_stream_t stream, bool holds);
void fake_capture(fake_stream_t stream, bool captures);

/* The next copy of this kind fails: on its stream, or when it is asked for. */
enum fake_fault { fakeNone, fakeCopyOut, fakeCopyIn, fakeCopyOutCall, fakeCopyInCall, fakeRecordCall, fakePin };
void fake_fail(enum fake_fault fault);

/* What the library was given and has not given back. */
int fake_n_pinned(void);
int fake_n_events(void);
int fake_n_streams(void);
/* How often it was given pinned memory. */
int fake_n_pins(void);
/* What it should not have done: copies of memory that is not pinned or not the device's, calls in a wrong context, on streams
 * that capture or outside of relaxed mode. */
int fake_n_sins(void);

#endif
