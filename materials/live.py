# SPDX-License-Identifier: GPL-3.0-or-later
"""The image in the making on a material, and everything as it was afterwards. Side: Blender.

A node that shows an earlier image of Tessera's shows the preview for a while. Where there is none,
the node that will get the result is added already. What has to be put back is stored on the nodes
themselves, so it can be done in whatever state undo or loading a file brings.
"""

from collections.abc import Iterator

import bpy
from bpy.types import Image, NodeTree, ShaderNodeTexImage

from ..generator_process.errors import InvalidRequestError
from . import colour_input, image_nodes, shader_nodes, targets
from .targets import MaterialTarget

_ADDED = "tessera_preview"
_BORROWED = "tessera_before_preview"


def show(target: MaterialTarget, image: Image) -> bool:
    """Let the target's material show the preview, where that needs no more than a node.

    Returns whether it does. Selection and links of the user stay as they are.
    """
    place = _place_of(target)
    if place is None:
        return False
    added = _added_in(place.tree)
    former = image_nodes.generated_at(place)
    if added is not None:
        added.image = image
    elif former is not None:
        former[_BORROWED] = former.image or ""
        former.image = image
    elif place.is_free:
        _add(place, image)
    else:
        return False
    return True


def end(image: Image | None, *, keep_added: bool = False) -> None:
    """Put everything back. What the user has changed in the meantime stays as it is.

    Args:
        image: The preview. None if it is gone.
        keep_added: Leave the added node where it is: `take` will get it.
    """
    for tree in _trees():
        for node in [node for node in tree.nodes if _ADDED in node or _BORROWED in node]:
            assert isinstance(node, ShaderNodeTexImage), "only those are marked"
            is_ours = node.image is None or node.image == image
            if _BORROWED in node:
                if is_ours:
                    node.image = node[_BORROWED] or None
                del node[_BORROWED]
            elif not is_ours:
                del node[_ADDED]
            elif not keep_added:
                _remove(tree, node)


def take(tree: NodeTree) -> ShaderNodeTexImage | None:
    """Return the node that was added for a result. From now on it is like any other."""
    node = _added_in(tree)
    if node is not None:
        del node[_ADDED]
    return node


def _added_in(tree: NodeTree) -> ShaderNodeTexImage | None:
    for node in tree.nodes:
        if isinstance(node, ShaderNodeTexImage) and node.get(_ADDED):
            return node
    return None


def _place_of(target: MaterialTarget) -> colour_input.Place | None:
    if target.material_uid is None:
        return None
    try:
        material = targets.lookup_material(target)
        place = colour_input.find(material, shader_nodes.engine_of(bpy.context.scene))
    except InvalidRequestError:  # said when the image arrives
        return None
    return place if material.is_editable else None


def _add(place: colour_input.Place, image: Image) -> None:
    active = place.tree.nodes.active
    node = image_nodes.add(place)
    node.image = image
    node.select = False
    node[_ADDED] = True
    place.tree.nodes.active = active


def _remove(tree: NodeTree, node: ShaderNodeTexImage) -> None:
    """Remove an added node. It stays, without an image, if the user has linked it elsewhere."""
    if sum(len(output.links or ()) for output in node.outputs) > 1:
        node.image = None
        del node[_ADDED]
    else:
        tree.nodes.remove(node)


def _trees() -> Iterator[NodeTree]:
    for material in bpy.data.materials:
        if material.node_tree is not None and material.is_editable:
            yield material.node_tree
    for group in bpy.data.node_groups:
        if group.bl_idname == "ShaderNodeTree" and group.is_editable:
            yield group
