"""A layout that remembers what is laid out."""

import bpy

_LAYOUTS = {"row", "column", "box", "split", "grid_flow", "column_flow"}
_FUNCTIONS = bpy.types.UILayout.bl_rna.functions


class RecordingLayout:
    """Remembers what a panel lays out, and checks it against Blender as a window would.

    `calls` are tuples of the kind, the name or text, and more. `grey` has the names of all that was
    laid out in a disabled or inactive part, `locked` of what is in a disabled one.
    """

    def __init__(self, parent=None):
        self.calls = [] if parent is None else parent.calls
        self.grey = set() if parent is None else parent.grey
        self.locked = set() if parent is None else parent.locked
        self.enabled = parent is None or parent.enabled
        self.active = parent is None or parent.active

    def _remember(self, kind, name, *more):
        self.calls.append((kind, name, *more))
        if not (self.enabled and self.active):
            self.grey.add(name)
        if not self.enabled:
            self.locked.add(name)

    def prop(self, data, name, **options):
        assert name in data.bl_rna.properties, f"there is no property {name}"
        _check("prop", options)
        self._remember("prop", name)

    def prop_enum(self, data, name, value, **options):
        assert value in data.bl_rna.properties[name].enum_items
        _check("prop_enum", options)
        self._remember("prop_enum", value)

    def menu(self, name, *, text):
        assert issubclass(getattr(bpy.types, name), bpy.types.Menu)
        self._remember("menu", name, text)

    def operator(self, name, **options):
        module, function = name.split(".")
        operator = getattr(getattr(bpy.ops, module), function)
        names = set(operator.get_rna_type().properties.keys())
        _check("operator", options)
        given = _Properties(names)
        self._remember("operator", name, given, options)
        return given

    def label(self, *, text, **options):
        _check("label", options)
        self._remember("label", text)

    def progress(self, *, factor, text, **options):
        assert 0.0 <= factor <= 1.0
        _check("progress", options)
        self._remember("progress", text)

    def template_list(self, name, list_id, data, prop, active_data, active_prop, **options):
        assert issubclass(getattr(bpy.types, name), bpy.types.UIList)
        assert prop in data.bl_rna.properties
        assert active_prop in active_data.bl_rna.properties
        _check("template_list", options)
        self._remember("template_list", prop)

    def template_icon(self, *, icon_value, scale):
        self._remember("template_icon", icon_value, scale)

    def separator(self, **_options):
        pass

    def __getattr__(self, name):
        assert name in _LAYOUTS, name

        def part(**options):
            _check(name, options)
            return RecordingLayout(self)

        return part


class _Properties:
    def __init__(self, names):
        self.__dict__["names"] = names

    def __setattr__(self, name, value):
        assert name in self.names
        self.__dict__[name] = value


def _check(function, options):
    parameters = _FUNCTIONS[function].parameters
    for name, value in options.items():
        assert name in parameters, name
        if name == "icon":
            assert value in parameters["icon"].enum_items, value


def texts(calls, kind="label"):
    """Return the names or texts of one kind of what was laid out."""
    return [call[1] for call in calls if call[0] == kind]
