package bot_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

// asideRig is a bot with an app id, whose callers have signed tokens, on a Redis of its own.
type asideRig struct {
	*testing.B
	bot   *bot.Bot
	token string
	ids   atomic.Int64
}

const benchApp = "0b0c0d0e-1111-2222-3333-444455556666"

func newAsideRig(b *testing.B) *asideRig {
	b.Helper()
	r := &asideRig{B: b}
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	keys := map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "use": "sig", "kid": "k", "n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()), "endorsements": []string{"msteams"},
	}}}
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	b.Cleanup(issuer.Close)
	mux.HandleFunc("/meta", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": "x", "jwks_uri": issuer.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(keys) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"1","access_token":"t","token_type":"Bearer","expires_in":3600}`)
	})
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": "https://api.botframework.com", "aud": benchApp, "serviceurl": issuer.URL + "/", "nbf": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	token.Header["kid"] = "k"
	r.token, err = token.SignedString(key)
	must(err)
	guard, client, err := connector.New(connector.Config{
		AppID: benchApp, Credentials: connector.Credentials{Password: "p"}, MetadataURL: issuer.URL + "/meta", LoginURL: issuer.URL,
		AllowedHosts: []string{"127.0.0.1"},
	})
	must(err)
	b.Cleanup(guard.Close)
	b.Cleanup(client.Close)
	store, err := state.Open(b.Context(), ownRedis(b), state.Config{})
	must(err)
	b.Cleanup(func() { _ = store.Close() })
	card := &activity.Card{Fallback: "Garden", Body: []any{activity.TextBlock{Text: "Garden"}}}
	r.bot, err = bot.New(bot.Config{
		Actions: actions.New(), Planner: bot.PlannerFunc(nil), Store: store, Channel: client, Authenticator: bot.Guarded(guard),
		Teams: teams.Routes{Extension: teams.Extension{Commands: []teams.Command{{
			ID: "find", Title: "Find", Parameters: []teams.Parameter{{Name: "q", Title: "Name"}},
			Query: func(_ context.Context, _ *bot.Turn, q teams.Query) (teams.Answer, error) {
				return teams.Answer{Items: []teams.Item{{Card: card, Title: "Garden", Tap: map[string]string{"id": q.Text}}}}, nil
			},
		}}}},
	})
	must(err)
	b.Cleanup(func() { _ = r.bot.Drain(context.Background()) })
	r.bot.OnCardRefresh("view", func(_ context.Context, t *bot.Turn, _ bot.CardClick) (bot.CardAnswer, error) {
		state.Peek[counted](t.Conversation)
		return bot.CardAnswer{Card: card}, nil
	})
	r.bot.OnCommand("work", func(ctx context.Context, t *bot.Turn) error { // about what a turn does around its model
		state.Of[counted](t.Conversation).N++
		if err := t.Save(ctx); err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
		return t.Tell(ctx, "Done.")
	})
	serviceURL = issuer.URL + "/"
	return r
}

var serviceURL string

// ownRedis starts a redis-server that keeps nothing on disk, and returns its URL. Without one
// installed it is "", the embedded store, which takes CPU of this process.
func ownRedis(b *testing.B) string {
	b.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return ""
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	server := exec.CommandContext(b.Context(), binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.TempDir())
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Wait() })
	for range 200 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = c.Close()
			return "redis://127.0.0.1:" + port
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("redis-server does not answer")
	return ""
}

// body is an activity of a person in a group of their own.
func (r *asideRig) body(members string, person int64) string {
	return fmt.Sprintf(`{"channelId":"msteams","serviceUrl":%q,"id":"a%d","from":{"id":"29:p%d","aadObjectId":"aad-%d"},"recipient":{"id":"28:bot"},
		"conversation":{"id":"19:g%d@thread.v2","conversationType":"personal","tenantId":"t1"},"channelData":{"tenant":{"id":"t1"}},%s}`,
		serviceURL, r.ids.Add(1), person, person, person, members)
}

// send delivers an activity and fails unless the answer is 200.
func (r *asideRig) send(body string) {
	req := httptest.NewRequest(http.MethodPost, "/api/messages", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.token)
	w := httptest.NewRecorder()
	r.bot.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		r.Errorf("%d %s", w.Code, w.Body)
	}
}

var asideInvokes = map[string]string{
	"query":   `"type":"invoke","name":"composeExtension/query","value":{"commandId":"find","parameters":[{"name":"q","value":"gar"}],"queryOptions":{"skip":0,"count":25}}`,
	"refresh": `"type":"invoke","name":"adaptiveCard/action","replyToId":"1","value":{"action":{"type":"Action.Execute","verb":"view","data":{}},"trigger":"automatic"}`,
}

func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkAside is what an invoke that is answered at once costs, from the token to the answer,
// without the HTTP server. The query reads no state, the refresh does. The busy ones come at 500 a
// second, while 128 conversations have turns at work.
func BenchmarkAside(b *testing.B) {
	for _, name := range []string{"query", "refresh"} {
		b.Run(name, func(b *testing.B) {
			r := newAsideRig(b)
			r.send(r.body(asideInvokes[name], 0)) // fetches the keys
			b.ReportAllocs()
			before, n := cpu(), 0
			for b.Loop() {
				n++
				r.send(r.body(asideInvokes[name], int64(n)))
			}
			b.ReportMetric(float64((cpu()-before).Nanoseconds())/1e6/float64(n), "cpu-ms/op")
		})
		b.Run("busy-"+name, func(b *testing.B) {
			r := newAsideRig(b)
			r.send(r.body(asideInvokes[name], 0))
			stop := make(chan struct{})
			var working, asking sync.WaitGroup
			for i := range 128 {
				working.Go(func() {
					for {
						r.send(r.body(`"type":"message","text":"work"`, int64(i)))
						select {
						case <-stop:
							return
						case <-time.After(250 * time.Millisecond):
						}
					}
				})
			}
			time.Sleep(time.Second)
			const rate = 500
			times := make([]time.Duration, b.N)
			b.ResetTimer()
			began := time.Now()
			for i := range b.N {
				due := began.Add(time.Duration(i) * time.Second / rate)
				time.Sleep(time.Until(due))
				asking.Go(func() {
					r.send(r.body(asideInvokes[name], int64(i)))
					times[i] = time.Since(due)
				})
			}
			asking.Wait()
			b.StopTimer()
			close(stop)
			working.Wait()
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(times[len(times)*99/100])/1e6, "p99-ms")
		})
	}
}
