package connector

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
)

// outbound writes an activity for the conversation of ref as a bot may send it: fit for
// the channel, see [activity.Activity.Fit], and without what only the channel may say (ids,
// times, service URL, caller, names; rules A2031, A2041, A2063, A2071, A2083 and A2302 of
// the activity specification). One that no channel would take is an error. The activity
// itself stays as it is.
func outbound(ref schema.ConversationReference, a *activity.Activity) ([]byte, error) {
	out := fit(ref, a)
	out.ID, out.ServiceURL, out.CallerID = "", "", ""
	out.From.Name = ""
	out.Conversation.IsGroup = false
	if out.Type != "suggestion" && !targeted(out.Recipient) {
		out.Recipient = activity.Account{}
	}
	extra, err := withoutChannelFields(out.Extra)
	if err != nil {
		return nil, err
	}
	out.Extra = extra
	raw, err := out.Encode()
	if err != nil {
		return nil, err
	}
	return raw, activity.CheckSize(raw)
}

// fit makes the activity one that the channel takes there. What it does not say of its
// channel and conversation is what ref says.
func fit(ref schema.ConversationReference, a *activity.Activity) *activity.Activity {
	in := *a
	in.ChannelID = cmp.Or(a.ChannelID, ref.ChannelID)
	if a.Conversation.ID == "" {
		in.Conversation.ConversationAccount = ref.Conversation
	}
	out := in.Fit()
	out.ChannelID, out.Conversation = a.ChannelID, a.Conversation
	return out
}

// targeted reports whether the recipient alone is to see the activity.
func targeted(to activity.Account) bool {
	var flags struct {
		IsTargeted jsontext.Value `json:"isTargeted"`
	}
	return len(to.Extra) > 0 && json.Unmarshal(to.Extra, &flags) == nil && flags.IsTargeted.Kind() == 't'
}

// withoutChannelFields drops the members that an inbound activity brings and an
// outbound one must not repeat, and an expiration, which is a past one in every
// activity of msbotbuilder-go.
func withoutChannelFields(extra jsontext.Value) (jsontext.Value, error) {
	if len(extra) == 0 {
		return nil, nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(extra, &members, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("encode activity: extra fields: %w", err)
	}
	for _, name := range []string{"timestamp", "localTimestamp", "localTimezone", "rawTimestamp"} {
		delete(members, name)
	}
	if string(members["expiration"]) == zeroTime {
		delete(members, "expiration")
	}
	if len(members) == 0 {
		return nil, nil
	}
	return json.Marshal(members, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

const zeroTime = `"0001-01-01T00:00:00Z"`
