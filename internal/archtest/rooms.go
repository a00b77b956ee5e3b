package archtest

import (
	"fmt"
	"strings"
)

const internalRoom = "internal"

// layers says how high each room stands. Rooms of one layer are siblings. A room within
// another one has a layer of its own.
var layers = map[string]int{
	"activity":     1,
	"state":        2,
	"prompts":      2,
	"models":       2,
	"connector":    2,
	"state/inbox":  3,
	"actions":      3,
	"planner/plan": 4,
	"planner":      5,
	"skills":       6,
	"manifest":     6,
	internalRoom:   7, // what its packages import counts for their importers
	"bot/turn":     8,
	"bot":          9,
	"app":          10,
	"bottest":      11,
	"cmd":          12,
	"examples":     12,
	"bench":        12,
	"e2e":          12,
}

// vendors says in which rooms the packages of an SDK may be seen, tests included.
var vendors = map[string][]string{
	"github.com/sashabaranov/go-openai":       {"models"},
	"github.com/redis/go-redis":               {"state", "state/inbox"},
	"github.com/infracloudio/msbotbuilder-go": {"activity", "connector"},
}

// roomOf is the room within a room that holds the folder, or else the first folder of its
// path, "." for the module's root.
func roomOf(dir string) string {
	first, rest, nested := strings.Cut(dir, "/")
	if nested {
		second, _, _ := strings.Cut(rest, "/")
		if room := first + "/" + second; layers[room] > 0 {
			return room
		}
	}
	return first
}

// refuse says why f may not import the room to, "" when it may.
func refuse(f file, to string) string {
	from := f.room
	switch {
	case from == to:
		return ""
	case to == internalRoom:
		return "" // its own imports are looked at instead
	case from == "manifest":
		return "manifest is a leaf"
	case to == "manifest" && from != "app":
		return "only app imports manifest"
	case to == "bottest":
		if from == "cmd" || from == "examples" || f.test && layers[from] >= layers["bot/turn"] {
			return "" // the command line that plays and evaluates, and tests of bots
		}
		return "only cmd, examples and tests of bot import bottest"
	case from == "bottest" && within(f.dir, "bottest/eval") && layers[to] > layers["planner"]:
		return "bottest/eval needs a planner and actions, and nothing above them"
	case layers[to] == layers[from]:
		return fmt.Sprintf("%s and %s are siblings", from, to)
	case layers[to] > layers[from]:
		return fmt.Sprintf("%s stands below %s", from, to)
	}
	return ""
}

// within reports whether a folder is that one or below it.
func within(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }
