"""The computed prose, a module a subject.

A function marked ``finding`` gives the sentences that a chapter prints inline; what it is made of gives one sentence
each. Where the cache cannot support a sentence, the finding says what is missing and which command fills it.
"""

from report import import_modules

__all__ = import_modules(__name__)
