package state

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Lane names the turns that may not overlap: those of a conversation, or a kind
// of its turns that runs beside the others. Build it with [Key.Lane]; the zero
// Lane, and that of an unusable key, is refused. Lanes can be compared with ==.
type Lane struct {
	key  Key
	path string
}

// Lane is a lane of k's conversation: its own when name is "", else a further one
// whose turns run beside those of the others. Name is a word of the program.
func (k Key) Lane(name string) Lane {
	l := Lane{key: k, path: k.name}
	if name != "" && k.Err() == nil {
		l.path += lanesPart + url.PathEscape(name)
	}
	return l
}

const lanesPart = "/lanes/"

// String is what the keys of l in Redis begin with.
func (l Lane) String() string { return l.path }

// Key is the conversation's.
func (l Lane) Key() Key { return l.key }

// MarshalText makes a Lane its String in JSON.
func (l Lane) MarshalText() ([]byte, error) { return []byte(l.path), l.key.Err() }

// UnmarshalText takes what MarshalText made.
func (l *Lane) UnmarshalText(text []byte) error {
	lane, err := parseLane(string(text))
	*l = lane
	return err
}

// parseLane takes a lane's String. A name holds no slash, and what follows the
// last "/lanes/" of a conversation whose bot or channel is called lanes does.
func parseLane(path string) (Lane, error) {
	tag, _, tagged := strings.Cut(strings.TrimPrefix(path, keyPrefix+"{"), "}/")
	partition, err := strconv.Atoi(tag)
	if !tagged || err != nil || partition < 0 || partition >= partitions || !strings.HasPrefix(path, keyPrefix) {
		return Lane{}, fmt.Errorf("%w: %.80q is no lane", ErrKey, path)
	}
	name := path
	if i := strings.LastIndex(path, lanesPart); i >= 0 && !strings.Contains(path[i+len(lanesPart):], "/") {
		name = path[:i]
	}
	return Lane{key: Key{name: name, partition: partition}, path: path}, nil
}

// laneKeys are the keys of one lane, as arguments of calls.
type laneKeys struct{ lane, queue, lease, journal any }

func (l Lane) keys() laneKeys {
	return laneKeys{l.path, l.path + "/queue", l.path + "/lease", l.path + "/journal"}
}

func (l Lane) timersKey() string { return l.path + "/timers" }

// partitionKeys are the keys that the lanes of one partition share, as arguments of calls.
type partitionKeys struct{ ready, leases, timers, fence, depth, parked any }

func newPartitionKeys(p int) partitionKeys {
	return partitionKeys{
		ready: partitionKey(p, "ready"), leases: partitionKey(p, "leases"), timers: partitionKey(p, "timers"),
		fence: partitionKey(p, "fence"), depth: partitionKey(p, "depth"), parked: partitionKey(p, "parked"),
	}
}

// partitionKey has one part or two behind the tag, so that it is no document's.
func partitionKey(p int, name string) string {
	return keyPrefix + "{" + strconv.Itoa(p) + "}/" + name
}

func (k Key) answerKey(turn string) string {
	return partitionKey(k.partition, "answers/"+url.PathEscape(turn))
}

// seenKey is where a delivery to k's conversation is remembered. Ids come from
// outside, so they are hashed.
func (k Key) seenKey(id string) string {
	buf := make([]byte, 0, 256)
	buf = append(append(append(buf, k.name...), '\n'), id...)
	sum := sha256.Sum256(buf)
	return partitionKey(k.partition, "seen/"+base64.RawURLEncoding.EncodeToString(sum[:16]))
}
