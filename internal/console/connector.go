package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
)

const (
	maxReplyBytes = 1 << 20
	replyTimeout  = 10 * time.Second // to send one reply to the console
	closeTimeout  = time.Second
)

// connector takes the bot's replies, as the Bot Connector service does
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference).
type connector struct {
	url    string // the serviceUrl of the conversation
	screen screen
	server *http.Server
	serves sync.WaitGroup
	ids    atomic.Int64
}

func startConnector(ctx context.Context, s screen, conversation string) (*connector, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for replies: %w", err)
	}
	c := &connector{url: "http://" + listener.Addr().String() + "/", screen: s}
	c.server = &http.Server{
		Handler:           c.routes(conversation),
		ReadHeaderTimeout: replyTimeout,
		ReadTimeout:       replyTimeout,
	}
	c.serves.Go(func() { _ = c.server.Serve(listener) }) // ends with ErrServerClosed, by stop
	return c, nil
}

// stop lets the replies on their way arrive, for a moment, and ends the server.
func (c *connector) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.server.Shutdown(ctx); err != nil {
		_ = c.server.Close() // the listener is closed already, the rest is cut off
	}
	c.serves.Wait()
}

func (c *connector) routes(conversation string) http.Handler {
	mux := http.NewServeMux()
	at := "/v3/conversations/" + conversation + "/activities"
	mux.HandleFunc("POST "+at, c.taking(c.show))
	mux.HandleFunc("POST "+at+"/{replyTo}", c.taking(c.show))
	mux.HandleFunc("PUT "+at+"/{id}", c.taking(c.showEdited))
	mux.HandleFunc("DELETE "+at+"/{id}", c.deleted)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "ConversationNotFound", "no such conversation or operation")
	})
	return mux
}

// taking reads the activity for show and answers with its id.
func (c *connector) taking(show func(*activity.Activity)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReplyBytes))
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			refuse(w, http.StatusRequestEntityTooLarge, "MessageSizeTooBig", "the activity is larger than 1 MiB")
			return
		}
		if err != nil {
			return // the bot hung up
		}
		a, err := activity.Decode(body)
		if err != nil {
			refuse(w, http.StatusBadRequest, "BadSyntax", err.Error())
			return
		}
		show(a)
		id := r.PathValue("id")
		if id == "" {
			id = "console-" + strconv.FormatInt(c.ids.Add(1), 10)
		}
		answer(w, http.StatusOK, map[string]string{"id": id})
	}
}

func (c *connector) show(a *activity.Activity) {
	switch a.Type {
	case activity.Typing:
		c.screen.working(true)
	case activity.Message:
		c.screen.working(false)
		c.screen.say(render(a))
	case activity.EndOfConversation:
		c.screen.note("the bot has ended the conversation")
	}
}

func (c *connector) showEdited(a *activity.Activity) {
	a.Text += " (edited)"
	c.show(a)
}

func (c *connector) deleted(w http.ResponseWriter, _ *http.Request) {
	c.screen.note("the bot has taken a message back")
	w.WriteHeader(http.StatusOK)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body) // a bot that hung up has nobody to tell
}

// refuse answers with the error body of the Bot Connector service.
func refuse(w http.ResponseWriter, status int, code, message string) {
	type fault struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	answer(w, status, map[string]fault{"error": {code, message}})
}
