//go:build linux

package chaos_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/builtbot"
)

// raised is the bot with a newer format of records, which the bot as it is must not go on with.
var raised = builtbot.Changed("../..", "bot/turn/record.go", "const recordVersion = 3\n", "const recordVersion = 5\n")

// upgrade replaces the replicas while people write, by processes with a newer format of
// records. Old ones leave what they cannot read to new ones, and new ones go on with what old ones
// left, also in the middle of a plan.
func upgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}})
	newer, err := raised.Path()
	if err != nil {
		t.Fatal(err)
	}
	w.while(24, []kind{note, both}, func() {
		for at, replace := range []func(int){w.roll, w.kill, w.roll} {
			w.pass(4 * time.Second)
			w.replicas[at].bin = newer
			replace(at)
		}
		w.pass(2 * time.Second)
	})
	w.holds(w.settle(), append(promises(), answers(0, http.StatusServiceUnavailable))...)
	if n := w.logged("left to a newer version"); n == 0 {
		t.Error("no old process met a newer record: this test showed nothing")
	}
	if n := w.logged("dead letter"); n > 0 {
		t.Errorf("%d dead letters", n)
	}
}

// upgradeApproval: an old process that gets the answer to a newer one's question leaves it to
// that one.
func upgradeApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{env: []string{"BOT_APPROVAL_ACTIONS=addItem"}})
	newer, err := raised.Path()
	if err != nil {
		t.Fatal(err)
	}
	w.replicas[0].bin = newer
	w.roll(0)
	k := key{0, 1}
	w.tell(w.replicas[0], k, note.text(k))
	w.approve(w.replicas[1], k)
	w.shown(k, note.says(k)[0])
	if n := w.logged("left to a newer version"); n == 0 {
		t.Error("the old process did not leave the decision to the newer one: this test showed nothing")
	}
}

// approve has the person approve what they were asked about that message.
func (w *world) approve(to *replica, of key) {
	w.t.Helper()
	w.tell(to, of, regexp.MustCompile(`/approve (\w+)`).FindString(w.shown(of, "/approve ")))
}

// tell sends a message about another, or that one, by a channel without cards. The replica has to take it.
func (w *world) tell(to *replica, about key, text string) {
	w.t.Helper()
	status, _, err := w.post(to, []byte(written(object{
		"type": "message", "id": text, "channelId": "sms", "serviceUrl": w.channel.url(), "text": text,
		"from": person(about.speaker()), "recipient": object{"id": "28:bot"}, "conversation": object{"id": conversation(about.talk)},
	})))
	if err != nil || status != http.StatusOK {
		w.t.Fatalf("%s was answered with %d, %v", text, status, err)
	}
}

// shown waits for a reply with these words, in the conversation of that message.
func (w *world) shown(about key, words string) (text string) {
	w.t.Helper()
	for end := time.Now().Add(answeredWithin); time.Now().Before(end); w.pass(20 * time.Millisecond) {
		for _, p := range w.story().posts {
			if p.conversation == conversation(about.talk) && strings.Contains(p.text, words) {
				return p.text
			}
		}
	}
	w.t.Fatalf("nobody said %q", words)
	return ""
}

// logged counts the lines with these words in the logs of all bots.
func (w *world) logged(words string) (n int) {
	w.t.Helper()
	logs, err := filepath.Glob(filepath.Join(w.redis.dir, "bot-*.log"))
	if err != nil || len(logs) == 0 {
		w.t.Fatalf("%v, %d logs", err, len(logs))
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		n += strings.Count(string(text), words)
	}
	return n
}
