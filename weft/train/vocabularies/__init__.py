"""Vocabularies: text as integers and back, by bytes, characters, or pieces that are learned here.

They have seqio's interface: ``encode``, ``decode``, ``vocab_size``, and the ids of the padding, the
end, unknown text and the extra tokens.
"""

from weft.train.vocabularies.base import PassThroughVocabulary as PassThroughVocabulary
from weft.train.vocabularies.base import TextVocabulary as TextVocabulary
from weft.train.vocabularies.base import Vocabulary as Vocabulary
from weft.train.vocabularies.bpe import BPEVocabulary as BPEVocabulary
from weft.train.vocabularies.characters import ByteVocabulary as ByteVocabulary
from weft.train.vocabularies.characters import CharacterVocabulary as CharacterVocabulary
from weft.train.vocabularies.files import load_vocabulary as load_vocabulary
from weft.train.vocabularies.files import save_vocabulary as save_vocabulary
from weft.train.vocabularies.sentencepiece import SentencePieceVocabulary as SentencePieceVocabulary
from weft.train.vocabularies.unigram import UnigramVocabulary as UnigramVocabulary
