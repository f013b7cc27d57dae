/** One of a few words, all of them in sight. */
export function Segments<T extends string>(props: { name: string; value: T; choices: readonly (readonly [T, string])[]; onPick: (value: T) => void }) {
  return (
    <fieldset class="segments small">
      <legend class="unseen">{props.name}</legend>
      {props.choices.map(([value, words]) => (
        <label key={value} class={value === props.value ? "on" : ""}>
          <input type="radio" name={props.name} checked={value === props.value} onChange={() => props.onPick(value)} />
          {words}
        </label>
      ))}
    </fieldset>
  );
}

/** One of many words, or any. */
export function Choice(props: { name: string; value: string; choices: readonly (readonly [string, string])[]; onPick: (value: string) => void }) {
  const known = props.value === "" || props.choices.some(([value]) => value === props.value);
  return (
    <label class="field">
      {props.name}
      <select value={props.value} onChange={(event) => props.onPick(event.currentTarget.value)}>
        <option value="">any</option>
        {props.choices.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
        {!known && <option value={props.value}>{props.value}</option>}
      </select>
    </label>
  );
}
