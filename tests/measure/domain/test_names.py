from measure.domain.models import BUILT_IN
from measure.domain.names import model_name

WRITTEN = {
    "resnet18": "ResNet-18", "mobilenet_v2": "MobileNet-v2",  # the names of the networks' own papers
    "vgg11_bn": "VGG-11-BN", "vit_b_16": "ViT-B/16", "wide_resnet101_2": "Wide-ResNet-101",
    "timm:resnet18": "ResNet-18 (timm)", "timm:vit_base_patch16_224": "ViT-B/16 (timm)",
    "gpt2_decode_512": "GPT-2 decode", "bert_base_encode_128": "BERT encode",
    "timm:unheard_of": "timm:unheard_of", "package.module:function": "package.module:function",
}  # fmt: skip


def test_networks_have_the_names_that_people_write():
    assert {model: model_name(model) for model in WRITTEN} == WRITTEN
    names = [model_name(model.name) for model in BUILT_IN]
    assert len({*names, *(model.name for model in BUILT_IN)}) == 2 * len(names)
