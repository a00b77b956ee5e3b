package state

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An item lies in its queue as
//
//	1 <turn> <accepted, Unix ms> [<bytes of journal>]
//	<journal><body>
//
// The number in front is the format. Only an item that comes back from the parked
// turns has a journal with it. accept.lua and fire.lua write items, and turn_of in
// lanes.lua finds the turn in the second field, whatever the format.
const itemFormat = "1"

// Item is one thing to do in a lane.
type Item struct {
	Turn     string
	Accepted time.Time
	Body     []byte
	Journal  []byte // what was last saved of it, nil at its begin
	Tries    int    // how often another replica took it over after a lease ran out

	raw bool // Body is the item as it lies in the queue: it could not be read
}

func parseItem(raw, turn string) (Item, error) {
	header, rest, _ := strings.Cut(raw, "\n")
	fields := strings.Split(header, " ")
	item := Item{Turn: turn, Body: []byte(raw), raw: true}
	if len(fields) < 3 || fields[0] != itemFormat {
		return item, fmt.Errorf("an item of format %.20q, this program knows %s", fields[0], itemFormat)
	}
	accepted, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return item, fmt.Errorf("an item accepted at %.20q", fields[2])
	}
	journal := 0
	if len(fields) > 3 {
		if journal, err = strconv.Atoi(fields[3]); err != nil || journal < 0 || journal > len(rest) {
			return item, fmt.Errorf("an item with %.20q bytes of journal", fields[3])
		}
		item.Journal = []byte(rest[:journal])
	}
	item.Accepted, item.Body, item.raw = time.UnixMilli(accepted), []byte(rest[journal:]), false
	return item, nil
}

// format is the item with its journal, as it lies in the queue.
func (t Item) format() string {
	header := itemFormat + " " + t.Turn + " " + strconv.FormatInt(t.Accepted.UnixMilli(), 10)
	if t.Journal == nil {
		return header + "\n" + string(t.Body)
	}
	return header + " " + strconv.Itoa(len(t.Journal)) + "\n" + string(t.Journal) + string(t.Body)
}
