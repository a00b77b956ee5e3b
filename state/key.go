package state

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

const (
	maxIDBytes = 1 << 10 // limits how much text from a channel goes into a key

	keyPrefix = "planbot/"
)

// Key names one document in Redis. Build it with [ConversationKey], [UserKey] or [BotKey], or take
// it from a turn's [Scope.Key]. [Store.Load] rejects the zero Key and a Key built from bad parts. Keys are comparable with ==.
type Key struct {
	name      string
	partition int
	fault     string
}

// ConversationKey is the key of a conversation's state. A channel thread's id, "base;messageid=…",
// gets its own key in the partition of its base, so that a thread and its channel share a cluster
// slot. If a part is empty or longer than 1 KiB, the key's Err says so.
func ConversationKey(channel, bot, id string) Key {
	base, _, _ := strings.Cut(id, ";messageid=")
	return newKey(partitionOf(base), channel, bot, "conversations", id)
}

// UserKey is the key of a bot's state about one user of a channel, in the partition of the user's
// id. The rules of [ConversationKey] apply to its parts.
func UserKey(channel, bot, id string) Key {
	return newKey(partitionOf(id), channel, bot, "users", id)
}

// BotKey is the key of the state of the whole bot, which all its conversations and people share, on
// all channels. A Redis has one bot.
func BotKey() Key {
	p := partitionOf("bot")
	return Key{name: keyPrefix + "{" + strconv.Itoa(p) + "}/bot", partition: p}
}

// Under is the key of a document that belongs to k and shares its partition, so that both can be
// saved together. The rules of [ConversationKey] apply to id. kind is a constant of the program.
func (k Key) Under(kind, id string) Key {
	if k.fault != "" || k.name == "" {
		return k
	}
	if fault := faultOf(kind, "id", id); fault != "" {
		return Key{fault: fault}
	}
	return Key{name: k.name + "/" + kind + "/" + url.PathEscape(id), partition: k.partition}
}

// MarshalText returns the Key's String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.name), k.Err() }

// UnmarshalText parses the output of [Key.MarshalText].
func (k *Key) UnmarshalText(text []byte) error {
	tag, _, tagged := strings.Cut(strings.TrimPrefix(string(text), keyPrefix+"{"), "}/")
	partition, err := strconv.Atoi(tag)
	if !tagged || err != nil || partition < 0 || partition >= rdb.Partitions || !strings.HasPrefix(string(text), keyPrefix) {
		return fmt.Errorf("%w: %.80q is no key", ErrKey, text)
	}
	*k = Key{name: string(text), partition: partition}
	return nil
}

// newKey builds planbot/{partition}/channel/bot/kind/id. The hash tag comes first and contains only
// digits, and the parts are escaped. So no id can end the tag, spill into another part or collide
// with another id.
func newKey(partition int, channel, bot, kind, id string) Key {
	if fault := cmp.Or(faultOf(kind, "channel", channel), faultOf(kind, "bot", bot), faultOf(kind, "id", id)); fault != "" {
		return Key{fault: fault}
	}
	return Key{
		name: keyPrefix + "{" + strconv.Itoa(partition) + "}/" + url.PathEscape(channel) + "/" +
			url.PathEscape(bot) + "/" + kind + "/" + url.PathEscape(id),
		partition: partition,
	}
}

func faultOf(kind, what, text string) string {
	switch {
	case text == "":
		return fmt.Sprintf("the %s of a key of %s is empty", what, kind)
	case len(text) > maxIDBytes:
		return fmt.Sprintf("the %s of a key of %s has %d bytes, the limit is %d", what, kind, len(text), maxIDBytes)
	}
	return ""
}

// partitionOf spreads ids over the partitions with FNV-1a. It folds the upper half into the lower,
// because the low bits alone spread worse.
func partitionOf(id string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	sum := h.Sum64()
	return int((sum ^ sum>>32) % rdb.Partitions)
}

// String is the key as stored in Redis, or "" for a Key with an Err.
func (k Key) String() string { return k.name }

// Partition is the number of k's partition, counted from 0. All keys of a partition share a cluster
// slot. For package inbox.
func (k Key) Partition() int { return k.partition }

// Err says which part of the key is invalid. It wraps [ErrKey].
func (k Key) Err() error {
	switch {
	case k.fault != "":
		return fmt.Errorf("%w: %s", ErrKey, k.fault)
	case k.name == "":
		return fmt.Errorf("%w: the zero key", ErrKey)
	}
	return nil
}
