//go:build linux

package usernet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	chunkBytes    = 32 << 10
	datagramBytes = 64 << 10
)

// acceptTCP is called, in a goroutine of its own, for each connection that the
// sandbox opens. It is made outside first, so that the sandbox's own attempt
// fails when that one does.
func (n *Net) acceptTCP(request *tcp.ForwarderRequest) {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the stack passes none; Close cancels
	defer cancel()
	f := &flow{}
	done, ok := n.begin(n.tcp, func() { cancel(); f.abort() })
	if !ok {
		request.Complete(true)
		return
	}
	defer done()
	id := request.ID()
	outer, err := n.dial(ctx, "tcp", addrPort(id.LocalAddress, id.LocalPort))
	if err != nil {
		request.Complete(true)
		return
	}
	var queue waiter.Queue
	endpoint, failed := request.CreateEndpoint(&queue)
	request.Complete(failed != nil)
	if failed != nil {
		_ = outer.Close()
		return
	}
	inner := gonet.NewTCPConn(&queue, endpoint)
	reset := func() {
		if conn, ok := outer.(*net.TCPConn); ok {
			_ = conn.SetLinger(0) // it is closed anyway
		}
		endpoint.Abort()
	}
	if f.open(inner, outer, reset) {
		f.run(chunkBytes, n.opts.idle(id.LocalPort).tcp)
	}
}

// acceptUDP is called for the first packet of a flow, on the stack's own
// goroutine: those that follow wait until the flow is there.
func (n *Net) acceptUDP(request *udp.ForwarderRequest) bool {
	f := &flow{}
	done, ok := n.begin(n.udp, f.abort)
	if !ok {
		return true // dropped, as networks do
	}
	id := request.ID()
	ctx := context.Background() //nolint:forbidigo // nothing waits: a datagram socket is only named
	outer, err := n.dial(ctx, "udp", addrPort(id.LocalAddress, id.LocalPort))
	if err != nil {
		done()
		return false // the sandbox is told that the port is unreachable
	}
	var queue waiter.Queue
	endpoint, failed := request.CreateEndpoint(&queue)
	if failed != nil {
		_ = outer.Close()
		done()
		return false
	}
	if !f.open(gonet.NewUDPConn(&queue, endpoint), outer, func() {}) {
		done()
		return true
	}
	go func() {
		defer done()
		f.run(datagramBytes, n.opts.idle(id.LocalPort).udp)
	}()
	return true
}

// A flow carries what one connection, or one pair of UDP ports, says.
type flow struct {
	inner, outer net.Conn // the sandbox's and the host's
	reset        func()   // makes the ends of both abrupt
	active       atomic.Int64
	state        atomic.Int32
}

const (
	flowNew int32 = iota
	flowOpen
	flowAborted
)

// open gives a flow its ends. It is false, and closes them, when the flow was
// aborted before.
func (f *flow) open(inner, outer net.Conn, reset func()) bool {
	f.inner, f.outer, f.reset = inner, outer, reset
	if f.state.CompareAndSwap(flowNew, flowOpen) {
		return true
	}
	f.close()
	return false
}

// abort ends a flow from outside: whoever reads or writes it stops.
func (f *flow) abort() {
	if f.state.Swap(flowAborted) == flowOpen {
		f.reset()
		f.close()
	}
}

func (f *flow) close() {
	_, _ = f.inner.Close(), f.outer.Close() // nothing is left to say to either
}

// run copies both ways until both have ended or nothing was said for idle.
func (f *flow) run(size int, idle time.Duration) {
	f.touch()
	back := make(chan struct{})
	go func() {
		defer close(back)
		f.pump(f.inner, f.outer, size, idle)
	}()
	f.pump(f.outer, f.inner, size, idle)
	<-back
	f.close()
}

func (f *flow) touch() { f.active.Store(time.Now().UnixNano()) }

// pump copies one way. The end of the source ends the target's input only; a
// failure ends the flow.
func (f *flow) pump(target, source net.Conn, size int, idle time.Duration) {
	buffer := make([]byte, size)
	for {
		if source.SetReadDeadline(time.Now().Add(idle)) != nil {
			f.abort()
			return
		}
		count, err := source.Read(buffer)
		if (err == nil || count > 0) && !f.pass(target, buffer[:count], idle) {
			f.abort()
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && closeWrite(target):
			return
		case isTimeout(err) && time.Since(time.Unix(0, f.active.Load())) < idle:
		default:
			f.abort()
			return
		}
	}
}

// pass writes what was read; the target has idle to take it.
func (f *flow) pass(target net.Conn, data []byte, idle time.Duration) bool {
	f.touch()
	if target.SetWriteDeadline(time.Now().Add(idle)) != nil {
		return false
	}
	_, err := target.Write(data)
	return err == nil
}

// closeWrite tells the target that no more comes, where it can be told.
func closeWrite(target net.Conn) bool {
	half, ok := target.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
