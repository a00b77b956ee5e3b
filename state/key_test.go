package state_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/state"
)

// Keys of running bots: these may never change.
func TestKeysAreStable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key  state.Key
		want string
	}{
		{
			state.ConversationKey("msteams", "28:app", "19:abc@thread.tacv2"),
			"planbot/{22}/msteams/28:app/conversations/19:abc@thread.tacv2",
		},
		{
			state.ConversationKey("msteams", "28:app", "19:abc@thread.tacv2;messageid=1700000000000"),
			"planbot/{22}/msteams/28:app/conversations/19:abc@thread.tacv2%3Bmessageid=1700000000000",
		},
		{
			state.UserKey("msteams", "28:app", "29:1a/b{c}"),
			"planbot/{45}/msteams/28:app/users/29:1a%2Fb%7Bc%7D",
		},
		{
			state.ConversationKey("msteams", "28:app", "19:abc@thread.tacv2").Under("approvals", "a/b"),
			"planbot/{22}/msteams/28:app/conversations/19:abc@thread.tacv2/approvals/a%2Fb",
		},
		{state.BotKey(), "planbot/{39}/bot"},
		{state.BotKey().Under("tickets", "7"), "planbot/{39}/bot/tickets/7"},
	} {
		if got := tt.key.String(); got != tt.want || tt.key.Err() != nil {
			t.Errorf("%s (%v), want %s", got, tt.key.Err(), tt.want)
		}
	}
}

// Whatever the parts are: the hash tag is a partition and nothing else, the
// key has six parts, and they read back as what went in, so no two keys collide.
func TestKeysKeepPartsApart(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	part := func() string {
		const alphabet = "ab/{}%;=.:@ \n\x00\xff?#~2F7B"
		b := make([]byte, 1+random.IntN(12))
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	for range 5000 {
		channel, bot, id := part(), part(), part()
		if random.IntN(4) == 0 {
			id += ";messageid=" + part()
		}
		checkKey(t, state.ConversationKey(channel, bot, id), []string{channel, bot, "conversations", id})
		checkKey(t, state.UserKey(channel, bot, id), []string{channel, bot, "users", id})
	}
}

func checkKey(t *testing.T, key state.Key, want []string) {
	t.Helper()
	parts := strings.Split(key.String(), "/")
	if key.Err() != nil || len(parts) != 6 || parts[0] != "planbot" {
		t.Fatalf("key of %q is %q (%v)", want, key, key.Err())
	}
	var partition int
	if n, err := fmt.Sscanf(parts[1], "{%d}", &partition); n != 1 || err != nil ||
		parts[1] != fmt.Sprintf("{%d}", partition) || partition < 0 || partition >= 64 {
		t.Fatalf("hash tag of %q is %q", key, parts[1])
	}
	for i, escaped := range parts[2:] {
		if got, err := url.PathUnescape(escaped); err != nil || got != want[i] {
			t.Fatalf("part %d of %q is %q, want %q", i, key, got, want[i])
		}
	}
}

func TestThreadsShareTheirChannelsPartition(t *testing.T) {
	t.Parallel()
	used := map[string]int{}
	for i := range 6400 {
		base := fmt.Sprintf("19:%d@thread.tacv2", i)
		tag := func(k state.Key) string { return strings.Split(k.String(), "/")[1] }
		channel := tag(state.ConversationKey("msteams", "b", base))
		if thread := tag(state.ConversationKey("msteams", "b", base+";messageid=1")); thread != channel {
			t.Fatalf("the thread of %s is in %s, its channel in %s", base, thread, channel)
		}
		used[channel]++
	}
	for tag, n := range used {
		if n < 50 || n > 200 {
			t.Errorf("partition %s has %d of 6400 conversations", tag, n)
		}
	}
	if len(used) != 64 {
		t.Errorf("%d partitions are in use", len(used))
	}
}

func TestKeysCompare(t *testing.T) {
	t.Parallel()
	if state.UserKey("c", "b", "u") != state.UserKey("c", "b", "u") {
		t.Error("equal keys differ")
	}
	if state.UserKey("c", "b", "u") == state.ConversationKey("c", "b", "u") {
		t.Error("a user's key is a conversation's")
	}
}
