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
	// maxIDBytes bounds what a channel may make us put into a key.
	maxIDBytes = 1 << 10

	keyPrefix = "planbot/"
)

// Key names one document in Redis. Build it with [ConversationKey] or
// [UserKey]; the zero Key, and one built from bad parts, is refused by
// [Store.Load]. Keys can be compared with ==.
type Key struct {
	name      string
	partition int
	fault     string
}

// ConversationKey is the key of a conversation's state. The id of a channel's
// thread, "base;messageid=…", is a key of its own in the partition of its base,
// so that a thread and its channel share a slot of a cluster. Parts that are
// empty or longer than 1 KiB make a key whose Err says so.
func ConversationKey(channel, bot, id string) Key {
	base, _, _ := strings.Cut(id, ";messageid=")
	return newKey(partitionOf(base), channel, bot, "conversations", id)
}

// UserKey is the key of what a bot keeps about one user of a channel, in the
// partition of the user's id. The rules of [ConversationKey] apply to its parts.
func UserKey(channel, bot, id string) Key {
	return newKey(partitionOf(id), channel, bot, "users", id)
}

// Under is the key of a document that belongs to k's and lies in its partition, so
// that both are saved together. The rules of [ConversationKey] apply to id; kind
// is a word of the program.
func (k Key) Under(kind, id string) Key {
	if k.fault != "" || k.name == "" {
		return k
	}
	if fault := faultOf(kind, "id", id); fault != "" {
		return Key{fault: fault}
	}
	return Key{name: k.name + "/" + kind + "/" + url.PathEscape(id), partition: k.partition}
}

// MarshalText makes a Key its String in JSON.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.name), k.Err() }

// UnmarshalText takes what [Key.MarshalText] made.
func (k *Key) UnmarshalText(text []byte) error {
	tag, _, tagged := strings.Cut(strings.TrimPrefix(string(text), keyPrefix+"{"), "}/")
	partition, err := strconv.Atoi(tag)
	if !tagged || err != nil || partition < 0 || partition >= rdb.Partitions || !strings.HasPrefix(string(text), keyPrefix) {
		return fmt.Errorf("%w: %.80q is no key", ErrKey, text)
	}
	*k = Key{name: string(text), partition: partition}
	return nil
}

// newKey builds planbot/{partition}/channel/bot/kind/id. The hash tag comes
// first and holds digits only, and the parts are escaped, so that no id can
// end the tag, leave its place, or collide with another.
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

// partitionOf spreads ids over the partitions: FNV-1a, its upper half folded
// into the lower because the low bits alone spread worse.
func partitionOf(id string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	sum := h.Sum64()
	return int((sum ^ sum>>32) % rdb.Partitions)
}

// String is the key as Redis has it, or "" for a Key with an Err.
func (k Key) String() string { return k.name }

// Partition is the part of all keys that k lies in, counted from 0. The keys of one
// partition share a slot of a cluster. For package inbox.
func (k Key) Partition() int { return k.partition }

// Err says what is wrong with the parts the key was built from. It wraps [ErrKey].
func (k Key) Err() error {
	switch {
	case k.fault != "":
		return fmt.Errorf("%w: %s", ErrKey, k.fault)
	case k.name == "":
		return fmt.Errorf("%w: the zero key", ErrKey)
	}
	return nil
}
