#include "link.h"

#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

static int is_connected(int fd) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getpeername(fd, (struct sockaddr*)&address, &size)) return 0;
  return address.ss_family == AF_INET || address.ss_family == AF_INET6;
}

int drop_what_comes(void) {
  struct sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
  struct sock_fprog program = {1, &nothing};
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  for (struct dirent* entry; folder && (entry = readdir(folder));) {
    int fd = atoi(entry->d_name);
    if (!is_connected(fd)) continue;
    count += !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  }
  if (folder) closedir(folder);
  return count;
}
