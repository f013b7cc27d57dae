//! Sentences for people, no more and no longer than Kubernetes takes: whatever a pod is like, what is said of it is no reason to refuse
//! it.

/// As they may stand in headers of HTTP, in which Kubernetes hands them on.
pub(super) fn warnings(notes: &[String]) -> Vec<String> {
    notes.iter().take(NOTES_MAX).map(|note| cut(&format!("ringscope: {note}"))).collect()
}

/// What became of the pod and what else is to be known, as it may stand in an annotation.
pub(super) fn annotation(outcome: &str, notes: &[String]) -> String {
    let told = std::iter::once(cut(outcome)).chain(notes.iter().take(NOTES_MAX).map(|note| cut(note)));
    told.collect::<Vec<_>>().join("; ")
}

fn cut(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WARNING_CHARS_MAX).collect()
}

/// Kubernetes cuts longer ones (its documentation of admission webhooks, "Response").
const WARNING_CHARS_MAX: usize = 256;
/// Together they may have 4096 characters.
pub(super) const NOTES_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_bounded_however_much_there_is() {
        let notes: Vec<String> =
            (0..5000).map(|number| format!("{number}\n{}", "\u{e9}".repeat(1000))).collect();
        let outcome = format!("watched: {}", ["container"; 5000].join(", "));
        let (warnings, annotation) = (warnings(&notes), annotation(&outcome, &notes));
        assert_eq!(warnings.len(), NOTES_MAX);
        assert!(warnings.iter().all(|warning| warning.chars().count() == WARNING_CHARS_MAX));
        assert!(warnings[0].starts_with("ringscope: 0 "), "{}", warnings[0]);
        assert!(
            annotation.starts_with("watched: container, ") && annotation.contains("; 14 "),
            "{annotation}"
        );
        assert!(annotation.len() < 16 << 10 && !annotation.contains("; 15 "), "{}", annotation.len());
        assert_eq!(super::annotation("watched: a, b", &["c".to_owned()]), "watched: a, b; c");
    }
}
