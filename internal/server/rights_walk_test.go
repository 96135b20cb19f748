package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	_ "strandline.dev/api/logspec"
	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/client"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/server/guard"
)

// absent is a log that there is not.
const absent = "absent"

// needOf is the right that a verb needs, of a log, or where that is said of a group or the cluster.
// "any" is one whose answer has only what its caller may see, and "anybody" is for
// those too who have not proved who they are.
func needOf(v *guard.Verb) string {
	switch {
	case v.Open:
		return "anybody"
	case v.Right == access.None:
		return "any"
	case v.Right == access.Administer || v.On == access.Log:
		return v.Right.String()
	}
	return v.Right.String() + " " + string(v.On)
}

// holders have one right each, on all logs, on all groups or on the cluster.
var holders = []string{
	"append", "read", "trim", "configure", "create", "delete", "observe",
	"read group", "delete group", "observe group",
	"create cluster", "delete cluster", "observe cluster", "administer",
}

// allows reports whether a holder may make a call that needs a right.
func allows(holder, need string) bool {
	right, on, _ := strings.Cut(holder, " ")
	needed, object, _ := strings.Cut(need, " ")
	switch {
	case need == "any", need == "anybody", holder == "administer":
		return true
	case needed == "observe" && object != "cluster":
		return on == object || holder == "observe cluster" // whatever is granted on a log or a group includes it
	case object == "cluster", needed == "administer":
		return holder == need
	}
	return right == needed && (on == object || on == "cluster")
}

// refused reports whether an answer or an error is a refusal with a code.
func refused(answer *dynamicpb.Message, err error, code codes.Code) bool {
	if err != nil {
		return status.Code(err) == code
	}
	f := answer.Descriptor().Fields().ByName("refused")
	return f != nil && answer.Has(f) && answer.Get(f).Message().Get(f.Message().Fields().ByName("code")).Int() == int64(code)
}

// aboutLog reports whether a call that needs a right names the log that it is about.
func aboutLog(name, need string) bool {
	return strings.HasPrefix(name, "strandline.v1.") && slices.Contains([]string{"append", "read", "trim", "configure", "create", "delete", "observe"}, need)
}

// request is one for a method, about a log of a name unless the server gives it one.
func request(m protoreflect.MethodDescriptor, log string) *dynamicpb.Message {
	q := dynamicpb.NewMessage(m.Input())
	for name, value := range map[protoreflect.Name]protoreflect.Value{
		"log": protoreflect.ValueOfString(log), "name": protoreflect.ValueOfString(log), "nextIndex": protoreflect.ValueOfUint64(1),
		"session_id": protoreflect.ValueOfUint64(1), "enforced": protoreflect.ValueOfBool(true), "sequence": protoreflect.ValueOfUint64(1),
		"firstIndex": protoreflect.ValueOfUint64(2), "group": protoreflect.ValueOfString(log),
	} {
		if f := m.Input().Fields().ByName(name); f != nil && f.Kind() == kindOf(value) {
			q.Set(f, value)
		}
	}
	if f := m.Input().Fields().ByName("records"); f != nil && m.Name() == "Append" {
		q.Mutable(f).List().AppendMutable()
	}
	if f := m.Input().Fields().ByName("proposals"); f != nil {
		q.Mutable(f).List().Append(protoreflect.ValueOfBytes([]byte("x")))
	}
	if m.Name() == "CreateLog" && log == absent {
		q.Set(m.Input().Fields().ByName("name"), protoreflect.ValueOfString("no name"))
	}
	return q
}

// try makes a call over gRPC.
func try(ctx context.Context, c *grpc.ClientConn, m protoreflect.MethodDescriptor, log string) (*dynamicpb.Message, error) {
	q, answer := request(m, log), dynamicpb.NewMessage(m.Output())
	method := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	if !m.IsStreamingClient() && !m.IsStreamingServer() {
		return answer, c.Invoke(ctx, method, q, answer)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, method)
	if err != nil {
		return answer, err
	}
	if err := stream.SendMsg(q); err != nil && !errors.Is(err, io.EOF) {
		return answer, err
	}
	_ = stream.CloseSend()
	return answer, stream.RecvMsg(answer)
}

// tryJSON makes a call over HTTP and returns the code of the error that it is answered with first, such as NOT_FOUND, and what
// it was answered with.
func tryJSON(ctx context.Context, t *testing.T, at, token string, m protoreflect.MethodDescriptor, log string) (code, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx) // ends streams
	defer cancel()
	body, err := protojson.Marshal(request(m, log))
	require.NoError(t, err)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+"/"+string(m.Parent().FullName())+"/"+string(m.Name()), bytes.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer r.Body.Close()
	text, err = bufio.NewReader(r.Body).ReadString('\n')
	if !errors.Is(err, io.EOF) {
		require.NoError(t, err)
	}
	type failure struct{ Code, Reason, Outcome string }
	var answer struct {
		failure
		Error  failure
		Result struct {
			Refused struct{ Code codes.Code }
		}
	}
	if text != "" { // a read of an empty log
		require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
	}
	failed := answer.failure
	if failed.Code == "" {
		failed = answer.Error
	}
	if r.StatusCode != http.StatusOK {
		require.NotEmpty(t, failed.Code, text)
		require.NotEmpty(t, failed.Reason, text)
		require.Contains(t, []string{"not_done", "maybe_done", "done"}, failed.Outcome, text)
	}
	if c := answer.Result.Refused.Code; c != codes.OK {
		return rpccode.Code(c).String(), text
	}
	return failed.Code, text
}

func kindOf(v protoreflect.Value) protoreflect.Kind {
	switch v.Interface().(type) {
	case string:
		return protoreflect.StringKind
	case bool:
		return protoreflect.BoolKind
	}
	return protoreflect.Uint64Kind
}

// served are the services of a port.
func served(ctx context.Context, t *testing.T, c *grpc.ClientConn) (names []string) {
	t.Helper()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(c).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	require.Contains(t, names, "strandline.v1.LogService")
	return names
}

// Every call that there is, by every holder of one right, and by nobody in particular: each needs the right of its
// verb in the guard's table, which is written down in docs/rights.md once more.
func TestEveryCallNeedsTheRightOfItsVerb(t *testing.T) {
	t.Parallel()
	var methods []protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if f.Package() == "strandline.v1" || f.Package() == "logspec" {
			for i := range f.Services().Len() {
				for j := range f.Services().Get(i).Methods().Len() {
					methods = append(methods, f.Services().Get(i).Methods().Get(j))
				}
			}
		}
		return true
	})
	verbs := guard.Methods()
	require.Len(t, methods, len(verbs))

	o := alone(t, t.TempDir())
	o.LogspecLog = "logspec"
	n, err := Start(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	c, err := client.Dial([]string{n.GRPC()})
	require.NoError(t, err)
	defer c.Close()
	admin := c.Admin().Access()
	_, err = c.Admin().CreateLog(t.Context(), "logspec", client.LogConfig{})
	require.NoError(t, err)
	tokens := map[string]string{}
	for _, holder := range holders {
		user := strings.ReplaceAll(holder, " ", "-")
		right, object, ok := strings.Cut(holder, " ")
		switch {
		case object == "group":
			object = "group/*"
		case right == "administer":
			object = "cluster"
		case !ok:
			object = "log/*"
		}
		require.NoError(t, admin.AddGrants(t.Context(), client.Grant{Principal: "user/" + user, Object: object, Rights: []string{right}}))
		tokens[holder], _, err = admin.CreateAccessToken(t.Context(), user, time.Hour)
		require.NoError(t, err)
	}
	require.NoError(t, admin.EnforceRights(t.Context(), true, ""))

	conn, err := grpc.NewClient(n.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	nobody, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	_, err = nobody.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err), "descriptions cost more than who proves nothing may")
	for _, service := range served(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+tokens["append"]), t, conn) {
		pkg := service[:strings.LastIndex(service, ".")]
		require.Contains(t, []string{"strandline.v1", "logspec", "grpc.health.v1", "grpc.reflection.v1", "grpc.reflection.v1alpha"}, pkg,
			"%s is served and not walked: gRPC's own, which show what is the same everywhere, need no right", service)
	}
	for _, m := range methods {
		name := string(m.Parent().FullName()) + "/" + string(m.Name())
		require.Contains(t, verbs, "/"+name)
		need := needOf(verbs["/"+name])
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		answer, err := try(ctx, conn, m, absent)
		require.Equal(t, need != "anybody", refused(answer, err, codes.Unauthenticated), "%s by nobody: %v, %v", name, answer, err)
		overHTTP := m.ParentFile().Package() == "strandline.v1"
		if overHTTP {
			code, text := tryJSON(ctx, t, n.HTTP(), "", m, absent)
			require.Equal(t, need != "anybody", code == "UNAUTHENTICATED", "%s by nobody over HTTP: %s", name, text)
		}
		for _, holder := range holders {
			if m.Name() == "AddNode" && holder == "administer" {
				continue // it would wait for the node
			}
			as := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tokens[holder])
			answer, err := try(as, conn, m, absent)
			require.Equal(t, !allows(holder, need), refused(answer, err, codes.PermissionDenied), "%s by who has %s: %v, %v", name, holder, answer, err)
			if overHTTP {
				code, text := tryJSON(ctx, t, n.HTTP(), tokens[holder], m, absent)
				require.Equal(t, !allows(holder, need), code == "PERMISSION_DENIED", "%s by who has %s over HTTP: %s", name, holder, text)
			}
			for _, log := range []string{"_catalog", "_offsets"} {
				if aboutLog(name, need) {
					answer, err := try(as, conn, m, log)
					require.Equal(t, holder != "administer", refused(answer, err, codes.PermissionDenied), "%s on %s by who has %s: %v, %v", name, log, holder, answer, err)
				}
			}
		}
		cancel()
	}
	for holder, token := range tokens {
		as := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		answer, err := strandlinev1.NewCatalogServiceClient(conn).ListLogs(as, &strandlinev1.ListLogsRequest{IncludeInternal: true})
		require.NoError(t, err)
		require.Equal(t, holder == "administer", slices.ContainsFunc(answer.GetLogs(), func(l *strandlinev1.LogInfo) bool { return l.GetName() == "_catalog" }), "who has %s lists %v", holder, answer)
	}
}
