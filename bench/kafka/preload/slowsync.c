/* A slow disk for a program that cannot be told to have one.
 *
 * Loaded with LD_PRELOAD, fsync and fdatasync sleep for SLOWSYNC_US
 * microseconds after they have done their work, as "strandline serve
 * --fsync-delay" does. Nothing else is touched, msync in particular, so that
 * both systems pay for the same calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

typedef int sync_function(int);

static sync_function *real_fsync, *real_fdatasync;
static struct timespec delay;

__attribute__((constructor)) static void prepare(void)
{
	const char *text = getenv("SLOWSYNC_US");
	long us = text ? strtol(text, NULL, 10) : 0;

	if (us > 0) {
		delay.tv_sec = us / 1000000;
		delay.tv_nsec = us % 1000000 * 1000;
	}
	real_fsync = (sync_function *)dlsym(RTLD_NEXT, "fsync");
	real_fdatasync = (sync_function *)dlsym(RTLD_NEXT, "fdatasync");
}

static int slowly(sync_function *real, int fd)
{
	int result = real(fd);
	int failed = errno;
	struct timespec left = delay;

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
	errno = failed;
	return result;
}

int fsync(int fd) { return slowly(real_fsync, fd); }
int fdatasync(int fd) { return slowly(real_fdatasync, fd); }
