package connector

import (
	"context"
	"net/http"

	"github.com/infracloudio/msbotbuilder-go/schema"
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
	err := c.get(ctx, call{
		name:    "get team " + id,
		method:  http.MethodGet,
		service: ref.ServiceURL,
		path:    []string{"teams", id},
	}, &team)
	return team, err
}
