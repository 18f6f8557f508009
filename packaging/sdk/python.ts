/** The package for Python: `types.py` and `api.py` beside the client as it stands in `python/client.py`. */
import {
  line,
  type Member,
  type Method,
  type Model,
  type NamedType,
  type Operation,
  pathParts,
  type Shape,
} from './model.ts';
import { snake, uniqueNames } from './names.ts';

const KEYWORDS = new Set(
  [
    'False None True and as assert async await break class continue def del elif else except finally for from global if import in is',
    'lambda nonlocal not or pass raise return try while with yield',
  ]
    .join(' ')
    .split(' '),
);
const IDENTIFIER = /^[A-Za-z][A-Za-z0-9_]*$|^_[A-Za-z0-9][A-Za-z0-9_]*$/;
const isIdentifier = (name: string): boolean => IDENTIFIER.test(name) && !KEYWORDS.has(name);

export function pythonTypes(model: Model): string {
  return [
    `"""Types of parhelion ${model.version}: what JSON has, as dictionaries. Made from its documents; do not edit."""`,
    '',
    'from __future__ import annotations',
    '',
    'from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, Tuple, TypedDict, Union',
    '',
    'if TYPE_CHECKING:',
    '    from typing_extensions import NotRequired',
    '',
    ...model.types.map(typedDict),
  ].join('\n');
}

/** A member that is no identifier needs the other form of the declaration. */
function typedDict({ name, text, members }: NamedType): string {
  if (members.every((member) => isIdentifier(member.name)))
    return [
      '',
      `class ${name}(TypedDict):`,
      ...(text === null ? [] : [`    ${docString(text)}`, '']),
      ...members.flatMap((member) => [
        ...(member.text === null ? [] : [`    #: ${line(member.text)}`]),
        `    ${member.name}: ${memberType(member, '')}`,
      ]),
      '',
    ].join('\n');
  return [
    '',
    ...(text === null ? [] : [`#: ${line(text)}`]),
    `${name} = TypedDict(`,
    `    ${quoted(name)},`,
    '    {',
    ...members.flatMap((member) => [
      ...(member.text === null ? [] : [`        # ${line(member.text)}`]),
      `        ${quoted(member.name)}: ${quoted(memberType(member, ''))},`,
    ]),
    '    },',
    ')',
    '',
  ].join('\n');
}

const memberType = ({ shape, isRequired }: Member, prefix: string): string =>
  isRequired ? typeOf(shape, prefix) : `NotRequired[${typeOf(shape, prefix)}]`;
const quoted = (text: string): string => JSON.stringify(text);
const docString = (text: string): string =>
  `"""${line(text).replaceAll('\\', '\\\\').replaceAll('"""', "'''").replace(/"$/, '".')}"""`;

/** `prefix`: of the names of types. */
function typeOf(shape: Shape, prefix: string): string {
  switch (shape.kind) {
    case 'any':
      return 'Any';
    case 'null':
      return 'None';
    case 'boolean':
      return 'bool';
    case 'string':
      return 'str';
    case 'number':
      return 'float';
    case 'integer':
      return 'int';
    case 'enum':
      return `Literal[${shape.values.map(literalOf).join(', ')}]`;
    case 'array':
      return `List[${typeOf(shape.of, prefix)}]`;
    case 'map':
      return `Dict[str, ${typeOf(shape.of, prefix)}]`;
    case 'tuple':
      return `Tuple[${shape.of.map((one) => typeOf(one, prefix)).join(', ')}]`;
    case 'named':
      return `${prefix}${shape.name}`;
    case 'union': {
      const others = shape.of.filter(({ kind }) => kind !== 'null').map((one) => typeOf(one, prefix));
      const together = others.length === 1 ? others[0]! : `Union[${others.join(', ')}]`;
      return others.length < shape.of.length ? `Optional[${together}]` : together;
    }
  }
}

function literalOf(value: string | number | boolean): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return typeof value === 'string' ? quoted(value) : String(value);
}

// ----------------------------------------------------------------------------------------------------------------- calls

export function pythonApi(model: Model): string {
  return [
    `"""Routes and methods of parhelion ${model.version}. Made from its documents; do not edit."""`,
    '',
    'from __future__ import annotations',
    '',
    'from typing import Any, Dict, List, Literal, Optional, Tuple, Union',
    '',
    'from . import types',
    'from .client import Client, given, named, segment',
    '',
    '',
    'class Rpc:',
    '    """Methods of JSON-RPC. Others are called with ``Parhelion.call``."""',
    '',
    '    def __init__(self, client: Client) -> None:',
    '        self._client = client',
    ...model.methods.flatMap((one) => ['', ...methodLines(one)]),
    '',
    '',
    'class Parhelion(Client):',
    '    """Calls a daemon: routes here, methods of JSON-RPC with ``rpc``."""',
    '',
    `    _KEY_HEADER = ${quoted(model.keyHeader)}`,
    '',
    '    def __init__(self, base_url: str, api_key: Optional[str] = None, *, timeout: float = 30.0, retries: int = 2) -> None:',
    '        super().__init__(base_url, api_key, timeout=timeout, retries=retries)',
    '        self.rpc = Rpc(self)',
    ...model.operations.flatMap((one) => ['', ...operationLines(one)]),
    '',
  ].join('\n');
}

interface Parameter {
  readonly name: string;
  readonly member: string;
  readonly text: string;
  readonly isRequired: boolean;
}

function parameterOf({ name, shape, isRequired }: Member, unique: (wanted: string) => string): Parameter {
  const wanted = snake(name);
  const own = unique(KEYWORDS.has(wanted) ? `${wanted}_` : wanted);
  const type = typeOf(shape, 'types.');
  const isOptional = shape.kind === 'any' || type.startsWith('Optional[') || type === 'None';
  const absent = `${isOptional ? type : `Optional[${type}]`} = None`;
  return { name: own, member: name, isRequired, text: `${own}: ${isRequired ? type : absent}` };
}

const uniqueParameter = () => uniqueNames(['self', 'body', 'timeout', 'given', 'named', 'segment', 'types']);
const dictionary = (parameters: readonly Parameter[]): string =>
  `{${parameters.map(({ name, member }) => `${quoted(member)}: ${name}`).join(', ')}}`;

const TIMEOUT = 'timeout: Optional[float] = None';

function operationLines({
  id,
  text,
  method,
  path,
  needsKey,
  pathParams,
  query,
  body,
  answer,
  isText,
}: Operation): string[] {
  const unique = uniqueParameter();
  const inPath = pathParams.map((member) => parameterOf(member, unique));
  const inQuery = (query?.members ?? []).map((member) => parameterOf(member, unique));
  const bodyType = body === null ? '' : typeOf(body.shape, 'types.');
  const takes = [
    'self',
    ...inPath.map((one) => one.text),
    ...(body === null ? [] : [body.isRequired ? `body: ${bodyType}` : `body: Optional[${bodyType}] = None`]),
    '*',
    ...inQuery.map((one) => one.text),
    TIMEOUT,
  ];
  const filled = pathParts(path)
    .map(({ text: part, param }) =>
      param === null ? part : `{segment(${inPath.find((one) => one.member === param)!.name})}`,
    )
    .join('');
  const gives = [
    quoted(method),
    `${inPath.length === 0 ? '' : 'f'}${quoted(filled)}`,
    ...(query === null ? [] : [`query=${dictionary(inQuery)}`]),
    ...(body === null ? [] : ['body=body']),
    ...(needsKey ? [] : ['needs_key=False']),
    ...(isText ? ['is_text=True'] : []),
    'timeout=timeout',
  ];
  return [
    ...definition(snake(id), takes, answer === null ? 'None' : typeOf(answer, 'types.'), text),
    `        ${answer === null ? '' : 'return '}self.request(${gives.join(', ')})`,
  ];
}

function methodLines({ name, text, isByName, params, result }: Method): string[] {
  const unique = uniqueParameter();
  const parameters = params.map((member) => parameterOf(member, unique));
  const takes = [
    'self',
    ...(isByName ? ['*'] : []),
    ...parameters.map((one) => one.text),
    ...(isByName ? [] : ['*']),
    TIMEOUT,
  ];
  const values = parameters.map((one) => one.name).join(', ');
  const sent = parameters.length === 0 ? 'None' : isByName ? `named(${dictionary(parameters)})` : `given(${values})`;
  return [
    ...definition(snake(name), takes, typeOf(result, 'types.'), text),
    `        return self._client.call(${quoted(name)}, ${sent}, timeout=timeout)`,
  ];
}

function definition(name: string, takes: readonly string[], answer: string, text: string): string[] {
  return [
    `    def ${name}(`,
    ...takes.map((one) => `        ${one},`),
    `    ) -> ${answer}:`,
    `        ${docString(text)}`,
  ];
}
