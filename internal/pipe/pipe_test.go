package pipe_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/internal/pipe"
)

// Both ends write far more than any buffer before either reads: net.Pipe
// would stop here for ever.
func TestPipeWritesDoNotWait(t *testing.T) {
	t.Parallel()
	client, server := pipe.New()
	question, answer := bytes.Repeat([]byte("q"), 1<<20), bytes.Repeat([]byte("a"), 1<<20)
	for end, text := range map[net.Conn][]byte{client: question, server: answer} {
		if n, err := end.Write(text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	for end, want := range map[net.Conn][]byte{client: answer, server: question} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(end, got); err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
	}
}

func TestPipeClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe.New()
		if _, err := client.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}()
		if got, err := io.ReadAll(server); string(got) != "last words" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := server.Write([]byte("too late")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write to a closed pipe: %v", err)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read from a closed end: %v", err)
		}
	})
}

func TestPipeDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe.New()
		start := time.Now()
		if err := client.SetReadDeadline(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if err := client.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go func() { // a deadline set while a read waits counts, too
			time.Sleep(time.Second)
			_ = client.SetReadDeadline(time.Now())
		}()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if err := client.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if n, err := client.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}
