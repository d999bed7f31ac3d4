/* Says in the file NFLTR_SYNC_LOG, for each sync that succeeded, which file it was and how long the file was before it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long long length_of(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 ? (long long)st.st_size : -1;
}

static void tell(int fd, long long length) {
  const char *log = getenv("NFLTR_SYNC_LOG");
  char link[64], path[4096], line[4200];
  if (log == NULL || length < 0) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return;
  path[size] = 0;
  int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) return;
  int written = snprintf(line, sizeof line, "%s %lld\n", path, length);
  if (write(out, line, written) < 0) abort();
  close(out);
}

int fdatasync(int fd) {
  long long length = length_of(fd);
  int result = syscall(SYS_fdatasync, fd);
  if (result == 0) tell(fd, length);
  return result;
}

int fsync(int fd) {
  long long length = length_of(fd);
  int result = syscall(SYS_fsync, fd);
  if (result == 0) tell(fd, length);
  return result;
}
