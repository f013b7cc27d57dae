/* Writes the kernel's answer to a dump of all queue pairs (RDMA netlink, RDMA_NLDEV_CMD_RES_QP_GET) of one device to stdout, byte for
 * byte. Argument: the device's index, as `rdma link` has it [0]. */
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
	struct nlmsghdr head;
	struct nlattr device;
	unsigned int index;
};

int main(int n, char **arguments)
{
	struct request request = {
		.head = {.nlmsg_len = sizeof request,
			 .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET),
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP},
		.device = {.nla_len = sizeof request.device + sizeof request.index, .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX},
		.index = n > 1 ? (unsigned int)atoi(arguments[1]) : 0,
	};
	static char answer[1 << 16];
	int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	if (netlink < 0 || send(netlink, &request, sizeof request, 0) != (ssize_t)sizeof request) {
		perror("res_qp");
		return 1;
	}
	for (;;) {
		ssize_t n_bytes = recv(netlink, answer, sizeof answer, 0);
		if (n_bytes <= 0 || write(1, answer, (size_t)n_bytes) != n_bytes) {
			perror("res_qp");
			return 1;
		}
		int left = (int)n_bytes;
		for (struct nlmsghdr *one = (struct nlmsghdr *)answer; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left))
			if (one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR)
				return one->nlmsg_type == NLMSG_ERROR;
	}
}
