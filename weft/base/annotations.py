"""Annotations and signatures, read without evaluating names that only a type checker knows.

From 3.14 on Python evaluates annotations when they are first read. A name that is imported under
``TYPE_CHECKING`` is then a NameError, unless whoever reads it asks for forward references.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

if sys.version_info >= (3, 14):
    from annotationlib import Format, call_annotate_function, get_annotate_from_class_namespace

    def signature_of(fun: Callable[..., Any]) -> inspect.Signature:
        """The signature of a callable; annotations may be forward references."""
        return inspect.signature(fun, annotation_format=Format.FORWARDREF)

    def annotations_in(body: Mapping[str, Any]) -> dict[str, Any]:
        """The annotations in the body of a class that is being made."""
        found = body.get("__annotations__")
        if found is not None:
            return found
        annotate = get_annotate_from_class_namespace(body)
        return {} if annotate is None else call_annotate_function(annotate, Format.FORWARDREF)

    def copy_annotations(fun: Any, wrapper: Any) -> None:
        """Give a wrapper the annotations of what it wraps, evaluated or not."""
        if fun.__annotate__ is None:
            wrapper.__annotations__ = fun.__annotations__
        else:
            wrapper.__annotate__ = fun.__annotate__

else:
    signature_of = inspect.signature

    def annotations_in(body: Mapping[str, Any]) -> dict[str, Any]:
        """The annotations in the body of a class that is being made."""
        return body.get("__annotations__", {})

    def copy_annotations(fun: Any, wrapper: Any) -> None:
        """Give a wrapper the annotations of what it wraps."""
        wrapper.__annotations__ = fun.__annotations__
