/* A link that is lost, without any right that a user lacks. */
#ifndef LINK_H_
#define LINK_H_

/* Drops all packets that come to the process's connected internet sockets, acknowledgements too; how many sockets. */
int drop_what_comes(void);

#endif
