package load

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is user and system time of all threads, also of those that have ended. A process has a clock of it, whose number is made of
// its ID: clock_getcpuclockid(3). The times in /proc go in steps of 10 ms.
func processCPU(pid int) (time.Duration, bool) {
	const allThreads = 2 // CPUCLOCK_SCHED, of a process
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|allThreads), &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// OwnCPU is user and system time of this process.
func OwnCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// endWithParent keeps servers from outliving a benchmark that was killed.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
