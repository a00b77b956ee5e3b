package connector

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/infracloudio/msbotbuilder-go/connector/auth"
	"github.com/infracloudio/msbotbuilder-go/core"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
)

// Adapter returns an adapter of msbotbuilder-go whose inbound checks are g's
// and whose calls go through c: for code that is written for that library. Its
// own reading of requests remains, with what it loses; see package activity for
// the better one. The adapter holds no password, and lets in no [Callers]: the library
// has no way to answer them with tokens of their own.
func Adapter(g *Guard, c *Client) *core.BotFrameworkAdapter {
	return &core.BotFrameworkAdapter{
		AdapterSetting: core.AdapterSetting{
			AppID:              g.cfg.AppID,
			CredentialProvider: appID(g.cfg.AppID),
		},
		TokenValidator: validator{g},
		Client:         libraryClient{c},
	}
}

// appID is a credential that cannot give a secret away: tokens come from
// [Tokens], which the library does not know.
type appID string

func (a appID) IsValidAppID(id string) bool    { return a != "" && id == string(a) }
func (a appID) GetAppID() string               { return string(a) }
func (a appID) GetAppPassword() string         { return "" }
func (a appID) IsAuthenticationDisabled() bool { return false }

// validator judges what the library read of a request.
type validator struct{ guard *Guard }

// AuthenticateRequest ignores the credentials and the channel service of the
// library: the guard has its own.
func (v validator) AuthenticateRequest(
	ctx context.Context, a schema.Activity, header string, _ auth.CredentialProvider, _ string,
) (auth.ClaimsIdentity, error) {
	claims, err := v.guard.Verify(ctx, []string{header})
	if err != nil {
		return nil, err
	}
	if claims.caller != "" {
		return nil, unauthorized("caller not allowed")
	}
	id, err := claims.admit(string(a.DeliveryMode), a.ServiceURL, a.ChannelID)
	if err != nil {
		return nil, err
	}
	return identity(id), nil
}

// identity shows an Identity as the library's claims.
type identity Identity

// GetClaimValue returns "" for a claim that is not there, where the library's
// own panics.
func (i identity) GetClaimValue(claim string) string {
	switch claim {
	case auth.AudienceClaim:
		return i.AppID
	case auth.ServiceURLClaim:
		return i.ServiceURL
	default:
		return ""
	}
}

// IsAuthenticated is false in local mode, where nobody was identified.
func (i identity) IsAuthenticated() bool { return !i.Local }

// libraryClient sends what the library built. Of the address it takes nothing:
// the library joins unescaped ids into it and forgets the reply's. The
// interface has no context, so that the two minutes of callTimeout alone end a call.
type libraryClient struct{ c *Client }

// Post sends a new activity, as a reply where it is one.
func (l libraryClient) Post(_ url.URL, a schema.Activity) error {
	out, err := fromLibrary(a)
	if err != nil {
		return err
	}
	if a.ReplyToID != "" {
		_, err = l.c.Reply(context.Background(), out.Reference(), a.ReplyToID, out)
	} else {
		_, err = l.c.Send(context.Background(), out.Reference(), out)
	}
	return err
}

// Put updates the activity with a's id.
func (l libraryClient) Put(_ url.URL, a schema.Activity) error {
	out, err := fromLibrary(a)
	if err != nil {
		return err
	}
	return l.c.Update(context.Background(), out.Reference(), a.ID, out)
}

// Delete takes back the activity with a's id.
func (l libraryClient) Delete(_ url.URL, a schema.Activity) error {
	ref := schema.ConversationReference{ServiceURL: a.ServiceURL, Conversation: a.Conversation}
	return l.c.Delete(context.Background(), ref, a.ID)
}

// fromLibrary turns the library's activity into ours, without the zero times
// and empty objects that its JSON is full of.
func fromLibrary(a schema.Activity) (*activity.Activity, error) {
	if a.Type == "" {
		return nil, errors.New("send activity: it has no type")
	}
	data, err := json.Marshal(a, jsonv1.OmitEmptyWithLegacySemantics(true), json.OmitZeroStructFields(true))
	if err != nil {
		return nil, fmt.Errorf("encode %s activity: %w", a.Type, err)
	}
	out := new(activity.Activity)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("encode %s activity: %w", a.Type, err)
	}
	return out, nil
}
