package connector

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/infracloudio/msbotbuilder-go/schema"
)

// Upload is a file that the connector is to keep, for channels that take attachments by
// their id. Teams is none of them.
type Upload struct {
	Type      string `json:"type"` // media type
	Name      string `json:"name,omitempty"`
	Content   []byte `json:"originalBase64"`
	Thumbnail []byte `json:"thumbnailBase64,omitempty"`
}

// UploadAttachment keeps a file on the connector, for attachments of the conversation,
// and returns its id.
func (c *Client) UploadAttachment(ctx context.Context, ref schema.ConversationReference, u Upload) (id string, err error) {
	k := inConversation(http.MethodPost, ref, "attachments")
	if k.body, err = json.Marshal(u); err != nil {
		return "", fmt.Errorf("%s: %w", k.op(), err)
	}
	k.needBody = true
	reply, err := c.do(ctx, k)
	if err != nil {
		return "", err
	}
	if id = idOf(reply); id == "" {
		return "", fmt.Errorf("%s: the answer has no id", k.op())
	}
	return id, nil
}

// AttachmentInfo says what the connector keeps of an attachment.
type AttachmentInfo struct {
	Name  string           `json:"name"`
	Type  string           `json:"type"` // media type
	Views []AttachmentView `json:"views"`
}

// AttachmentView is one form of an attachment, such as original or thumbnail.
type AttachmentView struct {
	ID   string `json:"viewId"`
	Size int64  `json:"size"`
}

// Attachment returns what the connector at ref's service URL keeps under an id.
func (c *Client) Attachment(ctx context.Context, ref schema.ConversationReference, id string) (AttachmentInfo, error) {
	var info AttachmentInfo
	err := c.get(ctx, ofAttachment("get attachment "+id, ref, id), &info)
	return info, err
}

func ofAttachment(name string, ref schema.ConversationReference, id string, path ...string) call {
	return call{
		name:    name,
		method:  http.MethodGet,
		service: ref.ServiceURL,
		path:    append([]string{"attachments", id}, path...),
		usage:   usage{tenant: ref.Conversation.TenantID},
	}
}
