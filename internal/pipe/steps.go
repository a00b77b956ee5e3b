package pipe

import "net"

// Stepwise returns a connection on which requests that matter are steps: what names one, and is "" for any other. do
// sends the request and returns once its answer is there; the error of step is that of the write.
func Stepwise(conn net.Conn, what func(request []byte) string, step func(what string, do func() error) error) net.Conn {
	return &stepwise{Conn: conn, what: what, step: step}
}

type stepwise struct {
	net.Conn
	what   func([]byte) string
	step   func(string, func() error) error
	unread []byte // of the answer
}

func (s *stepwise) Write(p []byte) (n int, err error) {
	what := s.what(p)
	if what == "" {
		return s.Conn.Write(p)
	}
	err = s.step(what, func() error {
		if n, err = s.Conn.Write(p); err != nil {
			return err
		}
		answer := make([]byte, 1<<16)
		n, err := s.Conn.Read(answer) // now it is done
		s.unread = answer[:n]
		return err
	})
	return len(p), err
}

func (s *stepwise) Read(p []byte) (int, error) {
	if len(s.unread) > 0 {
		n := copy(p, s.unread)
		s.unread = s.unread[n:]
		return n, nil
	}
	return s.Conn.Read(p)
}
