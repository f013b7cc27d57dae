/* The strings to pull on the stub of the CUDA driver. */
#ifndef STUB_CUDA_H
#define STUB_CUDA_H
#include <stdbool.h>

typedef struct stub_stream *stream_t;

stream_t stub_stream(void);
/* On the second device, if 1. */
stream_t stub_stream_of(int device);
/* The stream is gone: who names it to the driver is counted. */
void stub_destroy(stream_t);
int stub_n_gone(void);
/* Calls that named an event together with a stream or an event of another device. */
int stub_n_mixed(void);
/* From now on of events with a time fails: 1 making them, 2 recording the next one, 3 recording the one after it, 4 asking two. */
void stub_fail_times(int call);
/* The library put work on a stream. NULL is a stream too. */
void stub_launch(stream_t);
/* Work is done as soon as it is launched (from now on, and all that is held), or held until told. */
void stub_hold(bool);
/* The first `n` pieces of work on the stream are done. */
void stub_finish(stream_t, int n);
/* Captures the stream in global mode until stub_end_capture, which says whether the capture is still valid. */
void stub_begin_capture(stream_t);
bool stub_end_capture(stream_t);
/* From now on the launch queue has so much room and nothing leaves it: whoever puts work or an event on a full one waits, and if
 * `with_lock` every query with him; until stub_unhang. */
void stub_bound_queue(int room, bool with_lock);
void stub_unhang(void);
/* Somebody waits. */
bool stub_is_full(void);
/* As cudaDeviceReset: all events are gone, the next context has the handle of this one. */
void stub_reset(void);
/* Calls that named an event which was gone. */
int stub_n_stale(void);
/* From now on cuEventCreate (cuEventRecord once) fails. */
void stub_refuse_events(bool);
void stub_refuse_record(void);
/* After so many more events with times cuEventCreate gives none, once. */
void stub_refuse_timed_after(int n);
int stub_n_creates(void), stub_n_records(void), stub_n_queries(void), stub_n_calls(void);
/* Queries by threads that were not in relaxed mode, and events recorded into a capture. */
int stub_n_sins(void);
/* Queries for an event although an older one of its stream had been found pending and nothing had moved. */
int stub_n_useless(void);
#endif
