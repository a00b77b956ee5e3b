package activity

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// maxZone is how long the name of a time zone may be; that of the database's
// longest has 30 letters.
const maxZone = 64

// Zone is the time zone of who sent the activity: the one that it names, or that its
// clientInfo names, else the offset of its localTimestamp. It is [time.UTC] when the
// activity does not say. Names are looked up in the database of [time.LoadLocation].
func (a *Activity) Zone() *time.Location {
	var times struct {
		Zone  string `json:"localTimezone"`
		Local string `json:"localTimestamp"`
	}
	if len(a.Extra) > 0 {
		_ = json.Unmarshal(a.Extra, &times) // what is of another type is not said
	}
	for _, name := range []string{times.Zone, a.clientZone()} {
		if zone := zoneNamed(name); zone != nil {
			return zone
		}
	}
	if at, err := time.Parse(time.RFC3339, times.Local); err == nil {
		if _, offset := at.Zone(); offset != 0 {
			return time.FixedZone("", offset)
		}
	}
	return time.UTC
}

// clientZone is the zone in the clientInfo, which Teams sends as an entity.
func (a *Activity) clientZone() string {
	for _, raw := range a.Entities[:min(len(a.Entities), maxMentions)] {
		var e struct {
			Type string `json:"type"`
			Zone string `json:"timezone"`
		}
		if raw.Kind() == '{' && json.Unmarshal(raw, &e) == nil && strings.EqualFold(e.Type, "clientInfo") {
			return e.Zone
		}
	}
	return ""
}

// zoneNamed is nil when there is none of that name, which a stranger chose.
func zoneNamed(name string) *time.Location {
	if name == "" || len(name) > maxZone || name == "Local" {
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return zone
}
