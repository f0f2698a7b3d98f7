package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// driveAll gives all sessions one thread, which sleeps in epoll.
func driveAll(l *loop, host string, all []session) error {
	conns, err := dialAll(host, len(all))
	if err != nil {
		return err
	}
	p := &poller{loop: l, live: len(all)}
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return err
	}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, p.timer, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}); err != nil {
		return err
	}
	for i, s := range all {
		if err := p.add(i, s, conns[i]); err != nil {
			return err
		}
	}
	l.group.Go(p.run)
	return nil
}

// polled is a session and its connection.
type polled struct {
	session
	fd      int
	file    *os.File // owns fd
	in      []byte
	out     []byte // what a full socket did not take
	again   int64  // not 0: ask then
	waiting bool   // has no request under way
	over    bool
}

type poller struct {
	loop   *loop
	epoll  int
	timer  int
	all    []*polled
	live   int
	idle   int   // sessions without a request under way
	alarm  int64 // what the timer is set to
	events [256]unix.EpollEvent
}

// add takes the connection out of the hands of the Go runtime.
func (p *poller) add(i int, s session, c net.Conn) error {
	defer c.Close()
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return errors.New("load: not a TCP connection")
	}
	f, err := tcp.File() // a duplicate
	if err != nil {
		return err
	}
	q := &polled{session: s, file: f, fd: int(f.Fd()), waiting: true}
	if err := unix.SetNonblock(q.fd, true); err != nil {
		return err
	}
	p.idle++
	p.all = append(p.all, q)
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, q.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)})
}

func (p *poller) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer unix.Close(p.epoll)
	defer unix.Close(p.timer)
	for _, q := range p.all {
		p.ask(q)
	}
	for p.live > 0 {
		p.setAlarm()
		n, err := unix.EpollWait(p.epoll, p.events[:], 10) // a look at sessions that wait for others, at least so often
		if err != nil && err != unix.EINTR {
			p.loop.fail(fmt.Errorf("load: epoll: %w", err))
			return
		}
		for _, ev := range p.events[:max(n, 0)] {
			if ev.Fd < 0 {
				var b [8]byte
				unix.Read(p.timer, b[:])
				p.alarm = 0
				continue
			}
			p.ready(p.all[ev.Fd], ev.Events)
		}
		p.askWaiting()
		if p.loop.abandoned.Load() {
			for _, q := range p.all {
				p.end(q, nil)
			}
		}
	}
}

// ask sends the next request of a session that has none under way.
func (p *poller) ask(q *polled) {
	out, again := q.next()
	switch {
	case out != nil:
		if q.waiting {
			q.waiting = false
			p.idle--
		}
		q.again = 0
		if err := p.write(q, out); err != nil {
			p.end(q, err)
		}
	case again == never:
		p.end(q, nil)
	default:
		if !q.waiting {
			q.waiting = true
			p.idle++
		}
		q.again = again
	}
}

func (p *poller) askWaiting() {
	if p.idle == 0 {
		return
	}
	at := now()
	for _, q := range p.all {
		if q.waiting && !q.over && q.again <= at {
			p.ask(q)
		}
	}
}

// setAlarm sets the timer to when the next session is due.
func (p *poller) setAlarm() {
	if p.idle == 0 {
		return
	}
	first := int64(0)
	for _, q := range p.all {
		if q.waiting && !q.over && q.again > 0 && (first == 0 || q.again < first) {
			first = q.again
		}
	}
	if first == 0 || first == p.alarm {
		return
	}
	p.alarm = first
	in := max(first-now(), 1)
	unix.TimerfdSettime(p.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(in)}, nil)
}

func (p *poller) end(q *polled, err error) {
	if q.over {
		return
	}
	q.over = true
	if q.waiting {
		p.idle--
	}
	p.live--
	q.file.Close()
	if err != nil {
		p.loop.fail(err)
	}
}

func (p *poller) write(q *polled, out []byte) error {
	n, err := unix.Write(q.fd, out)
	if err == unix.EAGAIN {
		n, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("load: write: %w", err)
	}
	if n < len(out) { // the socket is full: epoll says when it is not
		q.out = append(q.out[:0], out[n:]...)
		return p.watch(q, unix.EPOLLIN|unix.EPOLLOUT)
	}
	return nil
}

func (p *poller) watch(q *polled, events uint32) error {
	for i, other := range p.all {
		if other == q {
			return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, q.fd, &unix.EpollEvent{Events: events, Fd: int32(i)})
		}
	}
	return nil
}

// ready is told that a connection can be read or written.
func (p *poller) ready(q *polled, events uint32) {
	if q.over {
		return
	}
	if events&unix.EPOLLOUT != 0 && len(q.out) > 0 {
		rest := q.out
		q.out = nil
		if err := p.watch(q, unix.EPOLLIN); err == nil {
			err = p.write(q, rest)
			if err != nil {
				p.end(q, err)
				return
			}
		}
	}
	if events&^unix.EPOLLOUT == 0 {
		return
	}
	q.in = grown(q.in)
	n, err := unix.Read(q.fd, q.in[len(q.in):cap(q.in)])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err == nil && n == 0:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		p.end(q, fmt.Errorf("load: read: %w", err))
		return
	}
	q.in = q.in[:len(q.in)+n]
	a, used, err := parseAnswer(q.in)
	if err == nil && used == 0 {
		return
	}
	if err == nil {
		err = q.reply(a)
	}
	if err == nil && a.closes {
		err = errClosing
	}
	if err != nil {
		p.end(q, err)
		return
	}
	q.in = append(q.in[:0], q.in[used:]...)
	p.ask(q)
}

// sleepUntil waits more exactly than a timer of the runtime does.
func sleepUntil(at int64) {
	for left := at - now(); left > 0; left = at - now() {
		ts := unix.NsecToTimespec(left)
		unix.Nanosleep(&ts, nil)
	}
}
