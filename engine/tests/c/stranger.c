/* Calls a rank's unix socket: stranger.c NAME GREETING_HEX. Hands over memory and an event as a rank does; says CONNECTED,
 * then GREETED if it is answered, or CLOSED.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MEMORY_BYTES = 1 << 28 };

static int greet(int to, const char* hex) {
  char bytes[256], control[CMSG_SPACE(2 * sizeof(int))] = {0};
  size_t len = strlen(hex) / 2;
  for (size_t i = 0; i < len; i++) {
    unsigned byte = 0;
    sscanf(hex + 2 * i, "%2x", &byte);
    bytes[i] = (char)byte;
  }
  int fds[2] = {memfd_create("stranger", MFD_ALLOW_SEALING), eventfd(0, EFD_NONBLOCK)};
  if (ftruncate(fds[0], MEMORY_BYTES) || fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK)) return 1;
  struct iovec part = {bytes, len};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fds);
  memcpy(CMSG_DATA(head), fds, sizeof fds);
  return sendmsg(to, &message, 0) < 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  size_t len = strlen(argv[1]);
  if (len >= sizeof name.sun_path) return 2;
  memcpy(name.sun_path + 1, argv[1], len);
  int to = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  socklen_t name_len = (socklen_t)(sizeof(sa_family_t) + 1 + len);
  if (connect(to, (struct sockaddr*)&name, name_len) || greet(to, argv[2])) return perror("stranger"), 1;
  puts("CONNECTED");
  fflush(stdout);
  char answer[256];
  puts(recv(to, answer, sizeof answer, 0) > 0 ? "GREETED" : "CLOSED");
  return 0;
}
