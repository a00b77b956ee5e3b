package openapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/openapi"
)

// services are the documents in testdata/services: how many operations each has, and of which a part of the reason
// why they are not offered. README.md beside them has the sources.
var services = map[string]struct {
	operations int
	leftOut    map[string]string
}{
	"adyen.json":    {operations: 12},
	"airbyte.json":  {operations: 14},
	"airflow.json":  {operations: 14},
	"appwrite.json": {operations: 14, leftOut: map[string]string{"functionsCreateTag": "multipart/form-data"}},
	"asana.json":    {operations: 14, leftOut: map[string]string{"createAttachmentForObject": "multipart/form-data"}},
	"box.json": {operations: 13, leftOut: map[string]string{
		"post_files_content":                   "multipart/form-data",
		"options_files_content":                "its method is never offered",
		"put_files_upload_sessions_id":         "digest: the header is not in Headers",
		"post_files_upload_sessions_id_commit": "digest: the header is not in Headers",
	}},
	"digitalocean.json": {operations: 17, leftOut: map[string]string{"apps_get_logs_active_deployment": "nothing says what {component_name} in its path is"}},
	"discourse.json":    {operations: 14, leftOut: map[string]string{"createUpload": "multipart/form-data"}},
	"docker.json":       {operations: 14, leftOut: map[string]string{"ImageBuild": "application/octet-stream"}},
	"gitea.json":        {operations: 14},
	"github.json":       {operations: 13},
	"jira.json":         {operations: 14, leftOut: map[string]string{"addAttachment": "multipart/form-data"}},
	"kubernetes.json":   {operations: 14},
	"launchdarkly.json": {operations: 14},
	"notion.json":       {operations: 24},
	"s3.json":           {operations: 11, leftOut: map[string]string{"CopyObject": "x-amz-copy-source: the header is not in Headers"}},
	"sendgrid.json":     {operations: 14},
	"spotify.json":      {operations: 14, leftOut: map[string]string{"upload-custom-playlist-cover": "image/jpeg"}},
	"square.json":       {operations: 14},
	"twilio.json":       {operations: 14},
	"vonage.json":       {operations: 6},
	"wikimedia.json":    {operations: 20},
	"xero.json": {operations: 14, leftOut: map[string]string{
		"getAccountAttachmentById":          "contentType: the header is not in Headers",
		"getAccountAttachmentByFileName":    "contentType: the header is not in Headers",
		"updateAccountAttachmentByFileName": "application/octet-stream",
	}},
}

// TestServices loads documents of real services.
func TestServices(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("testdata/services")
	if err != nil || len(files) != len(services)+1 {
		t.Fatalf("%d files, for %d services and a README: %v", len(files), len(services), err)
	}
	for file, want := range services {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			c, err := openapi.New(t.Context(), openapi.Config{
				Key: "svc", Document: filepath.Join("testdata/services", file), Server: "https://service.example",
				Rules:  connections.Rules{Allow: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}},
				Header: http.Header{"Xero-Tenant-Id": {"t"}, "Api-Key": {"k"}, "Api-Username": {"u"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			names, _ := c.Offer(t.Context(), nil)
			all := c.Operations()
			if len(all) != want.operations || len(names) != len(all)-len(want.leftOut) {
				t.Errorf("%d operations, and %d are offered", len(all), len(names))
			}
			for _, o := range all {
				reason, isLeftOut := want.leftOut[o.Remote]
				if (o.LeftOut != "") != isLeftOut || !strings.Contains(o.LeftOut, reason) {
					t.Errorf("%q: %q,", o.Remote, o.LeftOut)
				}
				if o.Action == nil {
					continue
				}
				if told, err := o.Action.ForModels().MarshalJSON(); err != nil || len(told) < len(`{"type":"object"}`) {
					t.Errorf("%s: models are told %s, %v", o.Remote, told, err)
				}
			}
		})
	}
}
