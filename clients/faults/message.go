package faults

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// rawCodec hands messages through as they are, as *[]byte.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var services = []protoreflect.ServiceDescriptor{
	strandlinev1.File_strandline_v1_log_proto.Services().Get(0),
	strandlinev1.File_strandline_v1_session_proto.Services().Get(0),
	strandlinev1.File_strandline_v1_catalog_proto.Services().Get(0),
	strandlinev1.File_strandline_v1_cluster_proto.Services().Get(0),
}

func method(name string) protoreflect.MethodDescriptor {
	for _, s := range services {
		if m := s.Methods().ByName(protoreflect.Name(name)); m != nil {
			return m
		}
	}
	return nil
}

func methodExists(name string) bool { return method(name) != nil }

// shortName is the method's name without its service.
func shortName(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }

// answer makes what the node has answered into what the client gets: addresses of nodes
// become those of the server, and with a rule that wants it, fields of a later version
// are added.
func (s *Server) answer(name string, data []byte, fault Fault) ([]byte, error) {
	m := method(name)
	if m == nil {
		return data, nil
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		return nil, err
	}
	out := kind.New()
	if err := proto.Unmarshal(data, out.Interface()); err != nil {
		return nil, fmt.Errorf("answer to %s: %w", name, err)
	}
	s.change(out, fault == Unknown)
	return proto.Marshal(out.Interface())
}

// change does both to a message and all within it.
func (s *Server) change(m protoreflect.Message, unknown bool) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Kind() == protoreflect.StringKind {
				value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
					value.Map().Set(k, protoreflect.ValueOfString(s.fronted(v.String())))
					return true
				})
			}
		case field.IsList():
			if field.Kind() == protoreflect.MessageKind {
				for i := range value.List().Len() {
					s.change(value.List().Get(i).Message(), unknown)
				}
			}
		case field.Kind() == protoreflect.MessageKind:
			s.change(value.Message(), unknown)
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(s.fronted(value.String())))
		}
		return true
	})
	if unknown {
		later := protowire.AppendTag(m.GetUnknown(), 1999, protowire.BytesType)
		later = protowire.AppendString(later, "of a later version")
		later = protowire.AppendTag(later, 2000, protowire.VarintType)
		m.SetUnknown(protowire.AppendVarint(later, 7))
	}
}

// fronted is the server's address for that of a node; anything else stays as it is.
func (s *Server) fronted(text string) string {
	for _, n := range s.nodes {
		if text == n.upstream {
			return n.link.Address()
		}
	}
	return text
}

// failure is what the client gets for an error of the node.
func (s *Server) failure(err error) error {
	from, ok := status.FromError(err)
	if !ok || from.Code() == codes.OK {
		return err
	}
	made := status.New(from.Code(), from.Message())
	for _, detail := range from.Details() {
		whole, ok := detail.(protoadapt.MessageV1)
		if info, is := detail.(*errdetails.ErrorInfo); is {
			s.change(info.ProtoReflect(), false)
		}
		if ok {
			if with, err := made.WithDetails(whole); err == nil {
				made = with
			}
		}
	}
	return made.Err()
}

// status is the error of a rule: a refusal, or a bare code.
func (r Rule) status() error {
	if r.Do == Status || r.Do == StatusAfter {
		return status.Error(codes.Code(r.Code), "made by a rule")
	}
	made, err := status.New(codes.FailedPrecondition, "made by a rule").WithDetails(&errdetails.ErrorInfo{
		Domain: "strandline.dev", Reason: r.Reason, Metadata: r.metadata(),
	})
	if err != nil {
		return err
	}
	return made.Err()
}

// refusal is that of a rule, for an append.
func (r Rule) refusal() ([]byte, error) {
	return proto.Marshal(&strandlinev1.AppendResponse{Result: &strandlinev1.AppendResponse_Refused{
		Refused: &strandlinev1.Refusal{
			Code: int32(codes.FailedPrecondition), Reason: r.Reason, Message: "made by a rule", Metadata: r.metadata(),
		},
	}})
}
