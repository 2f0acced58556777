// Holds custom resources against the schemas of their CRDs: a JSON array of objects on stdin, findings as JSON on
// stdout, one list for each object; null where no package knows its kind. Knows no chart.
//
// The packages hold each schema as a compiled validator, which overlooks unknown keys. A validator reads every key that
// its schema knows, so a key that it never read, in a mapping of which it read others, is unknown.

import { readFileSync } from "node:fs";

const PACKAGES = ["karpenter", "keda", "gateway-api", "prometheus-operator"];

function watched(value, path, mappings) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item, index) => watched(item, `${path}/${index}`, mappings));
  const entries = Object.entries(value).map(([key, item]) => [key, watched(item, `${path}/${key}`, mappings)]);
  const inner = Object.fromEntries(entries);
  const left = new Set(Object.keys(value));
  const seen = { path, left, known: false };
  mappings.push(seen);
  return new Proxy(inner, {
    get(target, key) {
      if (typeof key === "string") {
        seen.known = true;
        left.delete(key);
      }
      return Reflect.get(target, key);
    },
    ownKeys(target) {
      seen.known = true;
      left.clear();
      return Reflect.ownKeys(target);
    },
  });
}

async function validatorOf(apiVersion, kind) {
  const [group, version] = apiVersion.split("/");
  for (const name of PACKAGES) {
    let models;
    try {
      models = await import(`@kubernetes-models/${name}/${group}/${version}/${kind}`);
    } catch (error) {
      if (error.code === "ERR_PACKAGE_PATH_NOT_EXPORTED" || error.code === "ERR_MODULE_NOT_FOUND") continue;
      throw error;
    }
    // A model copies what it is made from, so its method is called on the object that is watched.
    return (value) => models[kind].prototype.validate.call(value);
  }
  return null;
}

function findings(validate, object) {
  const mappings = [];
  const found = [];
  try {
    validate(watched(object, "", mappings));
  } catch (error) {
    found.push(...(error.errors ?? [error]).map((one) => `${one.instancePath ?? ""} ${one.message}`));
  }
  for (const { path, left, known } of mappings) {
    if (known) found.push(...[...left].map((key) => `${path}/${key} is unknown`));
  }
  return found;
}

const answers = [];
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const validate = await validatorOf(object.apiVersion, object.kind);
  answers.push(validate === null ? null : findings(validate, object));
}
process.stdout.write(JSON.stringify(answers));
