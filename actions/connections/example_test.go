package connections_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/connections"
)

// An operator accepts what a service shows, and later sees what has changed.
func ExampleNewLock() {
	accepted, now := connections.NewLock(), connections.NewLock()
	err := accepted.Set("mail", map[string]jsontext.Value{"send": jsontext.Value(`{"name":"send","description":"Sends a mail"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = now.Set("mail", map[string]jsontext.Value{"send": jsontext.Value(`{"name":"send","description":"Sends a mail to everybody"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range accepted.Diff(now) {
		fmt.Println(change)
	}
	// Output:
	// changed mail send c076bb5fa68f379287d981427ac9d0f3310265ddb9abf5a06dbbdcd42028eacc -> 1e1d7ce5e15030a0175f84143515a0133d139c137f5602b53e9df171aa0a1713
	//   -   "description": "Sends a mail",
	//   +   "description": "Sends a mail to everybody",
}

func ExampleReadLock() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "actions.lock")
	lock, err := connections.ReadLock(path) // there is no file yet, so the lock is empty
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(lock.Set("mail", map[string]jsontext.Value{"send": jsontext.Value(`{"name":"send"}`)}), lock.Write(path)); err != nil {
		fmt.Println(err)
		return
	}
	lock, err = connections.ReadLock(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	pins, known := lock.Pins("mail")
	fmt.Println(known, len(pins), pins["send"].Digest[:8])
	// Output: true 1 87f9eeb7
}
