package connector

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
)

// Team is what Teams tells of a team.
type Team struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	MemberCount  int    `json:"memberCount"`
	ChannelCount int    `json:"channelCount"`
}

// Team returns the details of the team with that id, as channelData.team.id of
// an activity names it. Only Teams has them.
func (c *Client) Team(ctx context.Context, ref schema.ConversationReference, id string) (Team, error) {
	var team Team
	err := c.get(ctx, ofTeam("get team "+id, ref, id), &team)
	return team, err
}

// TeamChannel is a channel of a team.
type TeamChannel struct {
	ID string `json:"id"`
	// Name is "" for the channel that every team has, whose id is the team's.
	Name string `json:"name"`
	// Type is standard, private or shared; "" where Teams does not say.
	Type string `json:"type"`
}

// TeamChannels returns the channels of the team with that id which the bot can see.
func (c *Client) TeamChannels(ctx context.Context, ref schema.ConversationReference, id string) ([]TeamChannel, error) {
	var reply struct {
		Conversations []TeamChannel `json:"conversations"`
	}
	err := c.get(ctx, ofTeam("list channels of team "+id, ref, id, "conversations"), &reply)
	return reply.Conversations, err
}

func ofTeam(name string, ref schema.ConversationReference, id string, path ...string) call {
	return call{
		name:    name,
		method:  http.MethodGet,
		service: ref.ServiceURL,
		path:    append([]string{"teams", id}, path...),
		usage:   usage{tenant: ref.Conversation.TenantID},
	}
}

// NewThread begins a thread in a channel of Teams with its first message. The channel is
// the one of ref, whose conversation may be one of its threads; for another channel, put
// its id there. The answer's ID is the thread's, to go on in.
func (c *Client) NewThread(ctx context.Context, ref schema.ConversationReference, first *activity.Activity) (Created, error) {
	channel, _, _ := strings.Cut(ref.Conversation.ID, ";")
	data, err := json.Marshal(map[string]any{"channel": map[string]string{"id": channel}})
	if err != nil {
		return Created{}, fmt.Errorf("begin thread in channel %s: %w", channel, err)
	}
	message := *first
	message.ReplyToID = ""                         // nothing is there yet
	message.Conversation = activity.Conversation{} // but what is to be made
	return c.CreateConversation(ctx, ref.ServiceURL, NewConversation{
		IsGroup:     true,
		Bot:         activity.NewAccount(ref.Bot.ID, ""),
		TenantID:    ref.Conversation.TenantID,
		ChannelData: data,
		Activity:    &message,
	})
}
