/** The part of an asset that comes from its metadata and from the document behind its URI. */
export interface Content {
  readonly $schema: string;
  readonly json_uri: string;
  readonly files: readonly AssetFile[];
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly links: Readonly<Record<string, unknown>>;
}

interface AssetFile {
  readonly uri: string;
  readonly mime: string;
}

interface ContentInput {
  readonly uri: string;
  readonly name: string;
  readonly symbol: string;
  /** Word of the metadata account; null for assets without one. */
  readonly tokenStandard: string | null;
  /** The document, parsed; anything but an object counts as absent. */
  readonly document: unknown;
}

const SCHEMA = 'https://schema.metaplex.com/nft1.0.json';
const LINKS = ['image', 'animation_url', 'external_url'] as const;

/** Name and symbol are those of the chain; description, attributes, files and links those of the document. */
export function contentOf({ uri, name, symbol, tokenStandard, document }: ContentInput): Content {
  const json = isObject(document) ? document : {};
  const { attributes, description } = json;
  return {
    $schema: SCHEMA,
    json_uri: plain(uri),
    files: filesOf(json),
    metadata: {
      ...(attributes === undefined ? {} : { attributes }),
      ...(description === undefined ? {} : { description }),
      name: plain(name),
      symbol: plain(symbol),
      ...(tokenStandard === null ? {} : { token_standard: tokenStandard }),
    },
    links: Object.fromEntries(LINKS.filter((link) => json[link] !== undefined).map((link) => [link, json[link]])),
  };
}

/** Texts of the chain are padded with zeros, and some with blanks. */
const plain = (text: string): string => text.trim().replaceAll('\0', '');

/** The image comes first; a file that is listed twice counts once, with the type that it was listed with last. */
function filesOf(json: Readonly<Record<string, unknown>>): readonly AssetFile[] {
  const files = new Map<string, AssetFile>();
  const add = (uri: unknown, mime: unknown): void => {
    if (typeof uri === 'string') files.set(uri, { uri, mime: typeof mime === 'string' ? mime : mimeOf(uri) });
  };
  const { properties, image, animation_url: animation } = json;
  const listed = isObject(properties) ? properties['files'] : undefined;
  for (const file of Array.isArray(listed) ? (listed as readonly unknown[]) : []) {
    if (isObject(file)) add(file['uri'] ?? file['url'], file['type']);
    else add(file, undefined);
  }
  for (const link of [image, animation]) if (typeof link === 'string' && !files.has(link)) add(link, undefined);
  const [first] = [...files.values()].filter(({ uri }) => uri === image);
  const others = [...files.values()].filter((file) => file !== first);
  return first === undefined ? others : [first, ...others];
}

const IMAGE = 'image/png';

/** By the extension of the path; an image where it says nothing. */
function mimeOf(uri: string): string {
  if (!URL.canParse(uri)) return IMAGE;
  const extension = /\.([a-z0-9]{1,8})$/i.exec(new URL(uri).pathname)?.[1]?.toLowerCase();
  return (extension === undefined ? undefined : MIME_TYPES[extension]) ?? IMAGE;
}

/** Kinds of files that tokens point to. */
const MIME_TYPES: Readonly<Record<string, string>> = {
  png: IMAGE,
  apng: 'image/apng',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
  svg: 'image/svg+xml',
  bmp: 'image/bmp',
  tif: 'image/tiff',
  tiff: 'image/tiff',
  ico: 'image/x-icon',
  heic: 'image/heic',
  mp4: 'video/mp4',
  m4v: 'video/x-m4v',
  mov: 'video/quicktime',
  webm: 'video/webm',
  ogv: 'video/ogg',
  avi: 'video/x-msvideo',
  mkv: 'video/x-matroska',
  mpeg: 'video/mpeg',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  aac: 'audio/aac',
  m4a: 'audio/m4a',
  glb: 'model/gltf-binary',
  gltf: 'model/gltf+json',
  html: 'text/html',
  htm: 'text/html',
  txt: 'text/plain',
  json: 'application/json',
  pdf: 'application/pdf',
  js: 'text/javascript',
  css: 'text/css',
  zip: 'application/zip',
};

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
