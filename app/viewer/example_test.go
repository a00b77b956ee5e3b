package viewer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/planbot-go/planbot/app/viewer"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// On loopback nobody has to sign in.
func ExampleNew() {
	ctx := context.Background()
	store, err := state.Open(ctx, "", state.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	in, err := inbox.Open(store, inbox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	v, err := viewer.New(viewer.Config{
		Bot: "Hedda", Store: store, Inbox: in,
		ID: func(text string) (string, error) { return strings.TrimSpace(text), nil },
		Head: func(_ context.Context, id string) ([][2]string, error) {
			return [][2]string{{"turn", id}, {"outcome", "ok"}}, nil
		},
		Dead: func(inbox.Waiting, bool) [][2]string { return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	server := httptest.NewServer(v)
	defer server.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/turns/3d7rq2mzk4ab", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.Status)
	// Output: 200 OK
}
