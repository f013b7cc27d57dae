/* What a guest runs once it is set up, in place of init: a TCP server that runs one command for each connection.
 * In:  "LENGTH\n" and so many bytes, a command for sh; then a byte for each signal that the command's group shall get.
 * Out: "oLENGTH\n" or "eLENGTH\n" and so many bytes of its standard output or error, then "xSTATUS\n" (128 + the signal that ended it).
 * A connection that is closed early kills the command's group. It is the guest's first process: if it ends, the kernel panics, and
 * whoever waits for the guest hears of it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORT = 7000, COMMAND_BYTES = 1 << 20 };

static void all(int to, const char *bytes, ssize_t left)
{
	for (ssize_t n; left > 0; bytes += n, left -= n)
		if ((n = write(to, bytes, left)) <= 0)
			exit(1);
}

/* Hands on what a pipe holds; -1 in place of one that is at its end. */
static int hand_on(int connection, char kind, int pipe)
{
	static char bytes[65536];
	ssize_t n = read(pipe, bytes, sizeof bytes);
	if (n <= 0)
		return -1;
	dprintf(connection, "%c%zd\n", kind, n);
	all(connection, bytes, n);
	return pipe;
}

static char *command_from(int connection)
{
	static char command[COMMAND_BYTES + 1];
	char digit;
	size_t length = 0, done = 0;
	while (read(connection, &digit, 1) == 1 && digit != '\n')
		length = length * 10 + (size_t)(digit - '0');
	if (length > COMMAND_BYTES)
		exit(1);
	for (ssize_t n; done < length; done += (size_t)n)
		if ((n = read(connection, command + done, length - done)) <= 0)
			exit(1);
	return command;
}

static pid_t start(const char *command, int out, int err)
{
	pid_t child = fork();
	if (child)
		return child;
	setsid();
	signal(SIGPIPE, SIG_DFL);
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(out, 1);
	dup2(err, 2);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static void serve(int connection)
{
	int out[2], err[2], status;
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		exit(1);
	pid_t child = start(command_from(connection), out[1], err[1]);
	close(out[1]);
	close(err[1]);
	int ended = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd on[] = {{ended, POLLIN, 0}, {out[0], POLLIN, 0}, {err[0], POLLIN, 0}, {connection, POLLIN, 0}};
	while (poll(on, 4, -1) > 0) {
		char number;
		if (on[3].revents && read(connection, &number, 1) <= 0)
			exit(kill(-child, SIGKILL));
		else if (on[3].revents)
			kill(-child, number);
		for (int i = 1; i < 3; i++)
			if (on[i].revents)
				on[i].fd = hand_on(connection, "oe"[i - 1], on[i].fd);
			else if (on[0].revents) /* A process that outlives the command may hold the pipe open. */
				on[i].fd = -1;
		if (on[0].revents && on[1].fd < 0 && on[2].fd < 0)
			break;
	}
	waitpid(child, &status, 0);
	dprintf(connection, "x%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	exit(0);
}

int main(void)
{
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(server, (struct sockaddr *)&any, sizeof any) || listen(server, 64)) {
		perror("FAILED agent");
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* The kernel takes away what ended, orphans too. */
	puts("READY");
	fflush(stdout);
	for (;;) {
		int connection = accept4(server, NULL, NULL, SOCK_CLOEXEC);
		if (connection >= 0 && fork() == 0) {
			signal(SIGCHLD, SIG_DFL);
			serve(connection);
		}
		if (connection >= 0)
			close(connection);
	}
}
