# Asks a person, and is content with any answer.
if cat | grep -q 'A person answers'; then
  echo '{"$status": "success", "status": "success", "summary": "It was answered."}'
else
  echo '{"$status": "blocked", "status": "blocked", "summary": "Something is not known.", "questions": ["What is it?"]}'
fi
