/* The part of nccl.h that the loading tests use, and what they call it with. */
#ifndef LOADING_H
#define LOADING_H
struct unique_id { char bytes[128]; };
int ncclGetVersion(int *);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, unsigned long, int, int, void *, void *);
int ncclCommAbort(void *);
int ncclCommInitRank(void **, int, struct unique_id, int);
/* Of loading_use.c. */
int begin(void);
int stop(void);
int use(void);
#endif
