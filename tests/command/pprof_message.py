"""pprof's message Profile, read by protobuf: what command/pprof.py writes without it."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# The messages of pprof's profile.proto: for each field its number, name and type; "*": repeated.
MESSAGES = {
    "ValueType": "1 type int64, 2 unit int64",
    "Label": "1 key int64, 2 str int64, 3 num int64, 4 num_unit int64",
    "Sample": "1 location_id *uint64, 2 value *int64, 3 label *Label",
    "Mapping": "1 id uint64, 2 memory_start uint64, 3 memory_limit uint64, 4 file_offset uint64, 5 filename int64, 6 build_id int64, "
    "7 has_functions bool, 8 has_filenames bool, 9 has_line_numbers bool, 10 has_inline_frames bool",
    "Line": "1 function_id uint64, 2 line int64",
    "Location": "1 id uint64, 2 mapping_id uint64, 3 address uint64, 4 line *Line, 5 is_folded bool",
    "Function": "1 id uint64, 2 name int64, 3 system_name int64, 4 filename int64, 5 start_line int64",
    "Profile": "1 sample_type *ValueType, 2 sample *Sample, 3 mapping *Mapping, 4 location *Location, 5 function *Function, "
    "6 string_table *string, 7 drop_frames int64, 8 keep_frames int64, 9 time_nanos int64, 10 duration_nanos int64, "
    "11 period_type ValueType, 12 period int64, 13 comment *int64, 14 default_sample_type int64",
}


def profile_message():
    """The class of pprof's message Profile."""
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {"int64": kinds.TYPE_INT64, "uint64": kinds.TYPE_UINT64, "bool": kinds.TYPE_BOOL, "string": kinds.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="hakozuna/profile.proto", package="perftools.profiles", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for entry in fields.split(", "):
            number, field_name, kind = entry.split(" ")
            added = message.field.add(name=field_name, number=int(number))
            added.label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.removeprefix("*")
            added.type = scalars.get(kind, kinds.TYPE_MESSAGE)
            if added.type == kinds.TYPE_MESSAGE:
                added.type_name = f".perftools.profiles.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("perftools.profiles.Profile")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)  # before protobuf 4.22
